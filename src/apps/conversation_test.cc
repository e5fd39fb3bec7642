// Values of --template-var, and messages.
#include "apps/conversation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace loft {
namespace {

OrderedJson value_of(const std::string& text) {
  OrderedJson variables = OrderedJson::object();
  set_template_variable("x=" + text, variables);
  return variables["x"];
}

TEST(TemplateVariable, JsonIsReadAsJsonAndTheRestAsText) {
  EXPECT_EQ(value_of("true"), true);
  EXPECT_EQ(value_of("null"), nullptr);
  EXPECT_EQ(value_of("3"), 3);
  EXPECT_EQ(value_of("[1, 2]"), OrderedJson({1, 2}));
  EXPECT_EQ(value_of("\"3\""), "3");
  EXPECT_EQ(value_of("high"), "high");
  EXPECT_EQ(value_of("2026-08-22"), "2026-08-22");
  EXPECT_EQ(value_of(""), "");
}

TEST(TemplateVariable, WithoutANameOrWithBrokenJsonItIsRefused) {
  OrderedJson variables = OrderedJson::object();
  EXPECT_THROW(set_template_variable("x", variables), Error);
  EXPECT_THROW(set_template_variable("=1", variables), Error);
  EXPECT_THROW(set_template_variable("x={", variables), Error);
}

}  // namespace
}  // namespace loft
