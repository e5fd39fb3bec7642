// Public report kekzl/imp#1565: an own Jinja skipped unknown tags without a word. Nothing may be dropped: what loft
// does not know is refused when the template is loaded, with name and line. Seen to fail with the checks of the parser
// taken out one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/template_render.h"

namespace loft {
namespace {

void expect_refused(const std::string& text, const std::string& message) {
  try {
    ChatTemplate::parse(text, "chat_template.jinja");
    ADD_FAILURE() << text << ": no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unsupported) << e.what();
    EXPECT_STREQ(e.what(), message.c_str());
  }
}

TEST(RegressA11, KnownTagsAreObeyed) {
  EXPECT_EQ(render_template("{% raw %}{{ x }}{% y %}{% endraw %}"), "{{ x }}{% y %}");
  EXPECT_EQ(render_template("{% filter upper %}abc{% endfilter %}"), "ABC");
  EXPECT_EQ(render_template("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break "
                            "%}{% endif %}{{ i }}{% endfor %}"),
            "023");
}

TEST(RegressA11, AnUnknownTagIsNamedWithItsLine) {
  expect_refused("a\nb\n{% frobnicate %}\n", "chat_template.jinja:3: unknown tag 'frobnicate'");
  expect_refused("{% do x %}", "chat_template.jinja:1: unknown tag 'do'");
}

TEST(RegressA11, TagsThatNeedOtherTemplatesAreRefusedByName) {
  for (const std::string tag : {"include", "import", "extends", "from", "block", "autoescape"}) {
    expect_refused("\n{% " + tag + " 'x' %}",
                   "chat_template.jinja:2: the tag '" + tag + "' is not supported in chat templates");
  }
}

TEST(RegressA11, AnUnknownFilterIsNamedWithItsLine) {
  expect_refused("\n\n\n\n{{ x | nosuchfilter }}", "chat_template.jinja:5: unknown filter 'nosuchfilter'");
  expect_refused("{% if false %}\n{{ x | upper | nosuch(1) }}{% endif %}",
                 "chat_template.jinja:2: unknown filter 'nosuch'");
  expect_refused("{{ x | map('nosuch') }}", "chat_template.jinja:1: unknown filter 'nosuch'");
  expect_refused("{% filter nosuch %}{% endfilter %}", "chat_template.jinja:1: unknown filter 'nosuch'");
}

TEST(RegressA11, AnUnknownTestIsNamedWithItsLine) {
  expect_refused("\n{{ x is nosuchtest }}", "chat_template.jinja:2: unknown test 'nosuchtest'");
  expect_refused("{{ x | selectattr('a', 'nosuch') }}", "chat_template.jinja:1: unknown test 'nosuch'");
}

TEST(RegressA11, UnknownFunctionsAndMethodsAreNamedWithTheirLine) {
  expect_refused("\n\n{{ lipsum() }}", "chat_template.jinja:3: unknown function 'lipsum'");
  expect_refused("{{ messages.frob() }}", "chat_template.jinja:1: unknown method 'frob'");
}

TEST(RegressA11, NamesThatTheTemplateDefinesAreKnown) {
  EXPECT_EQ(
      render_template(
          "{% macro frob() %}x{% endmacro %}{% set ns = namespace() %}{% set ns.g = frob %}{{ frob() }}{{ ns.g() }}"),
      "xx");
}

TEST(RegressA11, AMethodOfAnotherTypeIsAnErrorWhenItIsCalled) {
  try {
    render_template("a\n{{ 'text'.items() }}");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    EXPECT_STREQ(e.what(), "chat_template.jinja:2: 'str object' has no attribute 'items'");
  }
}

}  // namespace
}  // namespace loft
