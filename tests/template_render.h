// tests: renders a template text over a conversation, for the tests of public reports about chat templates.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/chat_template.h"

namespace loft {

inline std::string render_template(std::string_view text, const OrderedJson& messages = OrderedJson::array(),
                                   const OrderedJson& variables = OrderedJson::object()) {
  const ChatTemplate chat = ChatTemplate::parse(text, "chat_template.jinja");
  return chat.render({.messages = &messages, .variables = &variables});
}

}  // namespace loft
