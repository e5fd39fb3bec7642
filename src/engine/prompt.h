// engine: text -> prompt ids. The one place where special tokens are added to a prompt, for the command line and every
// route of the server.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace loft {

/// Templated: the output of a chat template, which writes its own BOS; nothing is added (as transformers'
/// apply_chat_template does). Raw: text to complete; the tokenizer's post-processor decides about BOS.
enum class PromptKind : uint8_t { Templated, Raw };

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptKind kind);

}  // namespace loft
