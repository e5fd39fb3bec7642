// text: chat templates as their users meet them. That the text equals jinja2's is the matter of template_compare.py.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/file_map.h"

namespace loft {
namespace {

std::string render(std::string_view text, const OrderedJson& variables = OrderedJson::object(),
                   const OrderedJson& messages = OrderedJson::array()) {
  ChatTemplate::Input input;
  input.messages = &messages;
  input.variables = &variables;
  input.now_unix = 0;
  return ChatTemplate::parse(text, "t.jinja").render(input);
}

Error error_of(std::string_view text, const OrderedJson& messages = OrderedJson::array()) {
  try {
    const std::string out = render(text, OrderedJson::object(), messages);
    ADD_FAILURE() << "no error, but: " << out.substr(0, 200);
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::Internal, "");
}

TEST(ChatTemplate, WritesTheConversation) {
  const OrderedJson messages =
      OrderedJson::parse(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}])");
  EXPECT_EQ(render("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt "
                   "%}<a>{% endif %}",
                   {}, messages),
            "<user>Hi\n<assistant>Ho\n<a>");
}

TEST(ChatTemplate, DropsNullMembersOfMessages) {
  const OrderedJson messages = OrderedJson::parse(R"([{"role":"assistant","content":null}])");
  EXPECT_EQ(render("{{ messages[0] }}{{ messages[0].content is defined }}", {}, messages),
            "{'role': 'assistant'}False");
}

TEST(ChatTemplate, OffersReasoningUnderBothNames) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const OrderedJson messages = OrderedJson::array({{{"role", "assistant"}, {name, "hm"}}});
    EXPECT_EQ(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", {}, messages), "hmhm") << name;
  }
}

TEST(ChatTemplate, RaisedExceptionsAreBadRequestsWithTheirLine) {
  const Error e = error_of("a\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(e.code(), Code::BadRequest);
  EXPECT_STREQ(e.what(), "t.jinja:2: roles must alternate");
}

TEST(ChatTemplate, ToolUseTemplateIsTakenWithTools) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "loft_named_templates";
  std::filesystem::create_directories(folder);
  write_text_file(
      folder / "tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"with tools"}]})");
  const std::optional<ChatTemplate> named = ChatTemplate::load(folder);
  ASSERT_TRUE(named);
  const OrderedJson tools = OrderedJson::array({OrderedJson::object()});
  EXPECT_EQ(named->render({}), "plain");
  EXPECT_EQ(named->render({.tools = &tools}), "with tools");

  write_text_file(folder / "chat_template.jinja", "from the file");
  EXPECT_EQ(ChatTemplate::load(folder)->render({}), "from the file");
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(ChatTemplate::load(folder));
}

}  // namespace
}  // namespace loft
