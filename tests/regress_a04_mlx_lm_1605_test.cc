// ml-explore/mlx-lm#1605: rope_theta stood only inside rope_parameters. The nested value counts first, then the flat
// key, then the family's default, which the load summary shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/summary.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

struct RegressA04 : ::testing::Test {
  TempFolder temp;
  std::filesystem::path folder = temp / "m";
  std::vector<int32_t> ids = some_ids(64);
  void SetUp() override { synth_checkpoint(tiny_request(tiny_llama()), folder); }
  std::vector<float> logits_with(const char* keys) {
    edit_config(folder, [&](Json& c) {
      for (const char* key : {"rope_theta", "rope_parameters", "rope_scaling"}) c.erase(key);
      c.update(parse_json(keys, "test"));
    });
    return logits_of(folder, ids);
  }
};

TEST_F(RegressA04, NestedAndFlatThetaGiveTheSameLogits) {
  const std::vector<float> flat = logits_with(R"({"rope_theta": 10000000})");
  EXPECT_EQ(logits_with(R"({"rope_parameters": {"rope_theta": 10000000, "rope_type": "default"}})"), flat);
  EXPECT_EQ(logits_with(R"({"rope_parameters": {"rope_theta": 10000000}, "rope_theta": 20000})"), flat);
  EXPECT_NE(logits_with(R"({"rope_theta": 20000})"), flat);
}

TEST_F(RegressA04, ScalingHasTwoSpellingsOfItsOwn) {
  const std::vector<float> flat =
      logits_with(R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})");
  EXPECT_EQ(logits_with(R"({"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 4}})"), flat);
  EXPECT_NE(logits_with(R"({"rope_theta": 5e5})"), flat);
}

TEST_F(RegressA04, WithoutAnyKeyTheFamilyDefaultIsUsedAndShown) {
  const std::vector<float> none = logits_with("{}");
  EXPECT_THAT(summary_lines(summarize_checkpoint(folder)), Contains(Pair("rope", "theta 10000 (family default)")));
  EXPECT_EQ(logits_with(R"({"rope_theta": 10000})"), none);
  EXPECT_THAT(summary_lines(summarize_checkpoint(folder)), Contains(Pair("rope", "theta 10000 (rope_theta)")));
}

}  // namespace
}  // namespace loft
