// engine: text or messages -> prompt ids.
#include "engine/prompt.h"

#include <nlohmann/json.hpp>

namespace loft {

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptKind kind) {
  const bool add_special_tokens = kind == PromptKind::Raw;
  return tokenizer.encode(text, add_special_tokens);
}

std::string render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const ChatPrompt& prompt) {
  OrderedJson variables = OrderedJson::object();
  const auto name_token = [&](const char* name, const std::string& token) {
    if (!token.empty()) variables[name] = token;  // an unnamed one is undefined, as in transformers
  };
  name_token("bos_token", tokenizer.bos_token());
  name_token("eos_token", tokenizer.eos_token());
  name_token("unk_token", tokenizer.unk_token());
  name_token("pad_token", tokenizer.pad_token());
  if (prompt.variables) variables.update(*prompt.variables);
  return chat_template.render({.messages = prompt.messages,
                               .tools = prompt.tools,
                               .add_generation_prompt = prompt.add_generation_prompt,
                               .variables = &variables,
                               .now_unix = {}});
}

}  // namespace loft
