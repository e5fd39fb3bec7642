// apps: the chat of `loft run` at a terminal.
#pragma once
#include "apps/conversation.h"
#include "engine/open_engine.h"

namespace loft {

/// Reads lines until Ctrl-D or /exit and answers each. Ctrl-C stops an answer, a second one the program. Returns the
/// exit status.
int run_repl(const Options& options, Conversation& conversation, OpenedEngine& opened);

}  // namespace loft
