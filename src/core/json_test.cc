#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace loft {
namespace {

std::string message_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "f.json", limits);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Json, ReadsWhatPythonWrites) {
  const Json j = parse_json(R"({"a": NaN, "b": -Infinity, "c": [Infinity], "d": {"__float__": "Infinity"},
                               "e": 1000000000000000019884624838656, "f": "NaN"})",
                            "f.json");
  EXPECT_TRUE(std::isnan(take<double>(j, "a", "f.json")));
  EXPECT_EQ(take<double>(j, "b", "f.json"), -INFINITY);
  EXPECT_EQ(take<double>(j, "d", "f.json"), INFINITY);
  EXPECT_EQ(take<double>(j, "e", "f.json"), 1e30);
  EXPECT_EQ(take<std::string>(j, "f", "f.json"), "NaN");
}

TEST(Json, RequestBodiesGetNoPythonNumbers) {
  EXPECT_NE(message_of("[NaN]", {.python_numbers = false}), "");
}

TEST(Json, AWrongTypeNamesPlaceFoundAndWanted) {
  const Json j = parse_json(R"({"hidden_size": "576"})", "config.json");
  try {
    take<int64_t>(j, "hidden_size", "config.json");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), R"(config.json.hidden_size: found "576" (string), wanted an integer)");
    EXPECT_EQ(e.code(), Code::Corrupt);
  }
}

TEST(Json, DepthSizeDuplicatesAndBrokenTextAreRefused) {
  EXPECT_NE(message_of(std::string(65, '[') + std::string(65, ']')), "");
  EXPECT_EQ(message_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(message_of(R"({"a":1,"a":2})", {.unique_keys = true}), "");
  EXPECT_EQ(message_of(R"({"a":1,"b":{"a":2}})", {.unique_keys = true}), "");
  EXPECT_NE(message_of("[1, 2", {}), "");
  EXPECT_NE(message_of("[1, 2, 3]", {.max_bytes = 4}), "");
  EXPECT_NE(message_of("[\"\xff\"]"), "");
}

}  // namespace
}  // namespace loft
