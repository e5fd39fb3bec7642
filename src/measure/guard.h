// measure: the guard: a command runs alone on its machine, and is run again when it did not. Options and a command
// enter; its exit status leaves. The protocol is docs/guard.md.
#pragma once
#include <string>
#include <vector>

#include "core/options.h"
#include "measure/guard_sources.h"

namespace loft {

/// Runs `words` under the options of the guard. Returns the command's status (128 + signal), or 75 when no clean run
/// came about, 126 or 127 when it cannot run, 129, 130, 143 when a signal ended the guard. Errors: BadRequest for
/// options that cannot hold here; Device when procfs or a source stays unreadable.
int guard_command(const Options& options, const std::vector<std::string>& words,
                  const std::vector<std::string>& environment);

/// What the options say about sources; shared with tests.
SourceChoice source_choice(const Options& options);

}  // namespace loft
