// Public report mitsuhiko/minijinja#815: templates with {% generation %} (SmolLM3) did not parse. The tag is
// transparent; the expected texts are what transformers 5.24 renders. Seen to fail with the row "generation" taken out
// of the parser's tags.
#include <gtest/gtest.h>

#include "tests/template_render.h"

namespace loft {
namespace {

const OrderedJson kX = {{"x", "X"}};

TEST(RegressA10, GenerationIsATransparentBlock) {
  EXPECT_EQ(render_template("a{% generation %}b{{ x }}{% endgeneration %}c", {}, kX), "abXc");
}

TEST(RegressA10, WhitespaceControlWorksOnIt) {
  EXPECT_EQ(render_template("a {%- generation -%} b {{ x }} {%- endgeneration -%} c", {}, kX), "ab Xc");
  EXPECT_EQ(render_template("a\n  {% generation %}\n  b\n  {% endgeneration %}\n  c", {}, kX), "a\n  b\n  c");
}

TEST(RegressA10, ItStandsInLoopsAndSeesTheirVariables) {
  EXPECT_EQ(
      render_template("{% for i in [1, 2] %}{% generation %}{{ i }}{{ loop.last }};{% endgeneration %}{% endfor %}"),
      "1False;2True;");
}

TEST(RegressA10, ASetInsideItDoesNotLeak) {
  EXPECT_EQ(render_template("{% generation %}{% set y = 1 %}{{ y }}{% endgeneration %}[{{ y }}]"), "1[]");
}

}  // namespace
}  // namespace loft
