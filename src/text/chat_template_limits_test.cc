// text: what a hostile template cannot do: run on, fill the memory, overflow the stack or a number, leak.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "text/chat_template.h"

namespace loft {
namespace {

std::string repeated(std::string_view part, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += part;
  return out;
}

void expect_error(const std::string& text, Code code, const std::string& part) {
  try {
    const std::string out = ChatTemplate::parse(text, "t").render({});
    ADD_FAILURE() << text.substr(0, 200) << " gave " << out.size() << " bytes";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(e.what(), testing::HasSubstr(part)) << text.substr(0, 200);
  }
}

TEST(ChatTemplateLimits, EndlessLoopsRunOutOfSteps) {
  expect_error("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", Code::BadRequest,
               "steps");
  expect_error("{% for a in range(100000) %}{% for b in range(100000) %}{{ a == b }}{% endfor %}{% endfor %}",
               Code::BadRequest, "steps");
}

TEST(ChatTemplateLimits, TextIsBounded) {
  expect_error("{{ 'x' * 10 ** 9 }}", Code::BadRequest, "repetition");
  expect_error("{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}", Code::BadRequest, "MiB");
  expect_error(
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      Code::BadRequest, "MiB");
  expect_error(
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      Code::BadRequest, "MiB");
  expect_error("{{ ('x' * 100000) | replace('x', 'y' * 100000) }}", Code::BadRequest, "MiB");
  expect_error("{{ ('x' * 100000) | join('y' * 100000) }}", Code::BadRequest, "");
}

TEST(ChatTemplateLimits, WidthsAndPrecisionsAreBounded) {
  for (const char* text :
       {"{{ 'x'.ljust(10 ** 9) }}", "{{ 'x'.center(10 ** 20) }}", "{{ '1'.zfill(10 ** 9) }}",
        "{{ 'x' | center(10 ** 9) }}", "{{ '%1000000000d' % 1 }}", "{{ '%.1000000000f' % 1.5 }}",
        "{{ '%*d' % (10 ** 12, 1) }}", "{{ '{:1000000000}'.format(1) }}", "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ 'a\\nb' | indent(10 ** 9) }}", "{{ '\\t'.expandtabs(10 ** 9) }}", "{{ [1] | tojson(indent=10 ** 9) }}",
        "{{ strftime_now('%1000000000d') }}", "{{ [1] | batch(10 ** 9, 0) | list }}",
        "{{ [1] | slice(10 ** 9) | list }}"}) {
    expect_error(text, Code::BadRequest, "t:1: ");
  }
}

TEST(ChatTemplateLimits, NumbersAreBounded) {
  expect_error("{{ 10 ** 1000000 }}", Code::BadRequest, "128 bits");
  expect_error("{{ 2 ** 2 ** 2 ** 2 ** 2 ** 9 }}", Code::BadRequest, "128 bits");
  expect_error("{{ range(10 ** 12) | list }}", Code::BadRequest, "range too big");
  expect_error("{{ [1] * 10 ** 12 }}", Code::BadRequest, "repetition");
  expect_error("{{ 1" + repeated("0", 60) + " }}", Code::Unsupported, "128 bits");
}

TEST(ChatTemplateLimits, NestingIsBoundedInTheParser) {
  expect_error("{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}", Code::Unsupported, "nested deeper");
  expect_error("{{ " + repeated("[", 100000), Code::Unsupported, "nested deeper");
  expect_error("{{ " + repeated("{1:", 100000), Code::Unsupported, "nested deeper");
  expect_error("{{ " + repeated("not ", 100000) + "1 }}", Code::Unsupported, "nested deeper");
  expect_error("{{ " + repeated("-", 100000) + "1 }}", Code::Unsupported, "nested deeper");
  expect_error("{{ 1" + repeated(" + 1", 100000) + " }}", Code::Unsupported, "deeper than");
  expect_error("{{ a" + repeated(".a", 100000) + " }}", Code::Unsupported, "deeper than");
  expect_error("{{ a" + repeated(" | upper", 100000) + " }}", Code::Unsupported, "deeper than");
  expect_error(repeated("{% if 1 %}", 50000), Code::Unsupported, "nested deeper");
  expect_error("{% for " + repeated("(", 1000) + "a" + repeated(")", 1000) + " in b %}", Code::Unsupported,
               "nested deeper");
  expect_error("{{ 1" + repeated(" if 1 else 1", 50000) + " }}", Code::Unsupported, "deeper");
}

TEST(ChatTemplateLimits, CallsOfMacrosAndLoopsAreBounded) {
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Code::BadRequest, "too deeply");
  expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", Code::BadRequest, "too deeply");
  expect_error("{% macro m() %}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}", Code::BadRequest, "");
  expect_error("{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}", Code::BadRequest, "too deeply");
  expect_error("{{ 'a' | map(*(['map'] * 50000)) | list }}", Code::BadRequest, "t:1: ");
}

TEST(ChatTemplateLimits, ValuesNestOnlySoDeep) {
  const std::string start = "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ";
  for (const char* nest : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "[ns.x] | map('list') | list", "cycler(ns.x)",
                           "joiner(ns.x)", "{'a': ns.x}.items", "{'a': ns.x}.items()"}) {
    expect_error(start + nest + " %}{% endfor %}", Code::BadRequest, "");
  }
}

TEST(ChatTemplateLimits, SharedPartsDoNotTakeExponentialTime) {
  const std::string doubling =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% set "
      "ns.y = [ns.y, ns.y] %}{% endfor %}";
  for (const char* use :
       {"{{ ns.x }}", "{{ ns.x == ns.y }}", "{{ ns.x | tojson }}", "{{ ns.x < ns.y }}", "{{ {ns.x | list: 1} }}"}) {
    expect_error(doubling + use, Code::BadRequest, "");
  }
  expect_error("{% set ns = namespace() %}{% set ns.x = [ns, ns, ns] %}{{ ns }}", Code::BadRequest, "");
}

TEST(ChatTemplateLimits, CirclesOfValuesAreTakenApart) {  // the leak checker of the asan build looks at these
  const char* text =
      "{% set ns = namespace() %}{% set ns.me = [ns] %}"
      "{% macro m(f) %}{% macro inner() %}{{ f }}{% endmacro %}{% set ns.f = inner %}{% endmacro %}"
      "{% for i in range(100) %}{{ m(ns.f) }}{% set ns.l = loop %}{{ loop.changed([loop]) and '' or '' }}{% endfor %}"
      "{% for x in [1] recursive %}{% set ns.r = [loop] %}{% endfor %}ok";
  EXPECT_EQ(ChatTemplate::parse(text, "t").render({}), "ok");
}

TEST(ChatTemplateLimits, ALoopCannotPullFromItselfWhileItPulls) {
  expect_error(
      "{% set ns = namespace(l=none) %}{% for x in range(9) if not ns.l or ns.l.length %}{% set ns.l = loop %}{% "
      "endfor %}",
      Code::BadRequest, "already executing");
}

TEST(ChatTemplateLimits, ATemplateHasOneMebibyteAtMost) {
  expect_error(std::string((size_t(1) << 20) + 1, 'x'), Code::Unsupported, "bytes");
  EXPECT_EQ(ChatTemplate::parse(std::string(size_t(1) << 20, 'x'), "t").render({}).size(), size_t(1) << 20);
}

TEST(ChatTemplateLimits, ATemplateMustBeUtf8) {
  expect_error("a\nb\xFF", Code::Corrupt, "t:2: ");
}

TEST(ChatTemplateLimits, SyntaxErrorsNameTheirLine) {
  expect_error("\n\n{{ 1 + }}", Code::Corrupt, "t:3: ");
  expect_error("\n{% if x %}", Code::Corrupt, "t:2: ");
  expect_error("\n{{ 'open }}", Code::Corrupt, "t:2: ");
}

}  // namespace
}  // namespace loft
