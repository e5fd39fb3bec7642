// Public report ml-explore/mlx-lm#185: a history with content null and tool calls failed. The template sees tool-call
// arguments as an object whatever form they came in (mlx-lm#271). Seen to fail with parse_arguments taken out of
// chat_template.cc.
#include <gtest/gtest.h>

#include "tests/template_render.h"

namespace loft {
namespace {

constexpr const char* kCity =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }};{% endfor %}{% endfor %}";
constexpr const char* kJson =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }};{% endfor %}{% endfor "
    "%}";

OrderedJson history(const OrderedJson& assistant) {
  return OrderedJson::array({{{"role", "user"}, {"content", "Weather?"}},
                             assistant,
                             {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "cold"}},
                             {{"role", "user"}, {"content", "Thanks"}}});
}

OrderedJson call(const OrderedJson& arguments) {
  return {{"id", "1"}, {"type", "function"}, {"function", {{"name", "weather"}, {"arguments", arguments}}}};
}

TEST(RegressA14, ArgumentsGivenAsTextAreAnObject) {
  const OrderedJson messages =
      history({{"role", "assistant"},
               {"content", nullptr},
               {"tool_calls", OrderedJson::array({call("{\"city\":\"Oslo\", \"days\": 2}")})}});
  EXPECT_EQ(render_template(kCity, messages), "Oslo;");
  EXPECT_EQ(render_template(kJson, messages), "{\"city\": \"Oslo\", \"days\": 2};");
}

TEST(RegressA14, ContentMayBeMissing) {
  const OrderedJson messages =
      history({{"role", "assistant"}, {"tool_calls", OrderedJson::array({call("{\"city\":\"Oslo\"}")})}});
  EXPECT_EQ(render_template(kCity, messages), "Oslo;");
  EXPECT_EQ(render_template("{{ messages[1].content is defined }}{{ messages[1].content }}", messages), "False");
}

TEST(RegressA14, EveryCallOfAMessageIsParsed) {
  const OrderedJson calls = OrderedJson::array({call("{\"city\":\"Oslo\"}"), call({{"city", "Bergen"}})});
  const OrderedJson messages = history({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}});
  EXPECT_EQ(render_template(kCity, messages), "Oslo;Bergen;");
}

TEST(RegressA14, TextThatIsNoObjectStaysText) {
  for (const char* text : {"{\"city\":", "[1]", "plain"}) {
    const OrderedJson messages = history({{"role", "assistant"}, {"tool_calls", OrderedJson::array({call(text)})}});
    EXPECT_EQ(render_template("{{ messages[1].tool_calls[0].function.arguments }}", messages), text);
  }
  const OrderedJson empty = history({{"role", "assistant"}, {"tool_calls", OrderedJson::array({call("")})}});
  EXPECT_EQ(render_template(kJson, empty), "{};");
}

}  // namespace
}  // namespace loft
