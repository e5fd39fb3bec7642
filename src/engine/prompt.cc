// engine: text -> prompt ids.
#include "engine/prompt.h"

namespace loft {

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptKind kind) {
  const bool add_special_tokens = kind == PromptKind::Raw;
  return tokenizer.encode(text, add_special_tokens);
}

}  // namespace loft
