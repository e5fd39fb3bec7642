// Fuzz target: a chat template as text, parsed and rendered over a fixed small conversation. Only Error may come out.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "text/chat_template.h"

namespace {

const loft::OrderedJson& conversation() {
  static const loft::OrderedJson messages = loft::OrderedJson::parse(R"([
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "é <b>"}, {"type": "image"}]},
    {"role": "assistant", "content": null, "reasoning": "r",
     "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": [1, 2.5, null, true]}"}}]},
    {"role": "tool", "content": "{}"}])");
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const loft::OrderedJson variables =
      loft::OrderedJson::parse(R"({"bos_token": "<s>", "n": 7, "x": "  X y ", "f": -2.5})");
  try {
    const auto text = std::string_view(reinterpret_cast<const char*>(data), size);
    const loft::ChatTemplate chat = loft::ChatTemplate::parse(text, "t");
    chat.render({.messages = &conversation(), .tools = &conversation(), .variables = &variables, .now_unix = 0});
  } catch (const loft::Error&) {
  }
  return 0;
}
