// engine: text or messages -> prompt ids. The one place where special tokens are added to a prompt, for the command
// line and every route of the server.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace loft {

/// Templated: the output of a chat template, which writes its own BOS; nothing is added (as transformers'
/// apply_chat_template does). Raw: text to complete; the tokenizer's post-processor decides about BOS.
enum class PromptKind : uint8_t { Templated, Raw };

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptKind kind);

struct ChatPrompt {
  const OrderedJson* messages = nullptr;
  const OrderedJson* tools = nullptr;      // null: none
  const OrderedJson* variables = nullptr;  // object of further template variables; null: none
  bool add_generation_prompt = true;
};

/// The rendered text. The template sees the tokenizer's bos_token, eos_token, unk_token and pad_token, then the
/// variables, which win. Errors: those of ChatTemplate::render.
std::string render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const ChatPrompt& prompt);

}  // namespace loft
