// Stop ids and default sampling from the files of a checkpoint.
#include "engine/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace loft {
namespace {

using testing::ElementsAre;

TEST(GenerationConfig, EosIsOneIdOrAList) {
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": 2})", "g").eos_token_ids, ElementsAre(2));
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": [1, 106]})", "g").eos_token_ids, ElementsAre(1, 106));
  EXPECT_TRUE(parse_generation_config(R"({"eos_token_id": null})", "g").eos_token_ids.empty());
  EXPECT_TRUE(parse_generation_config("{}", "g").eos_token_ids.empty());
}

TEST(GenerationConfig, WrongTypesAndRangesAreCorrupt) {
  for (const char* text : {R"({"eos_token_id": "x"})", R"({"eos_token_id": [-1]})", R"({"eos_token_id": [1.5]})",
                           R"({"eos_token_id": 99999999999999999999})", R"({"temperature": "hot"})", R"({"top_p": 7})",
                           R"({"top_k": -2})", "[]", "{"}) {
    try {
      parse_generation_config(text, "g");
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Corrupt) << text;
    }
  }
}

TEST(GenerationConfig, ThePublishersSamplingReplacesTheFixedDefaultsAsAWhole) {
  const SamplerParams fixed = default_sampling({});
  EXPECT_EQ(fixed.temperature, 0.8);
  EXPECT_EQ(fixed.top_k, 40);
  const SamplerParams p = default_sampling(parse_generation_config(R"({"temperature": 0.6, "top_p": 0.9})", "g"));
  EXPECT_EQ(p.temperature, 0.6);
  EXPECT_EQ(p.top_p, 0.9);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.min_p, 0);
}

// Seen to fail with each of the four sources left out of union_of_stop_ids.
TEST(StopIds, AreTheUnionOfAllSources) {
  const int64_t config[] = {1, 8}, generation[] = {1, 106}, added[] = {50};
  EXPECT_THAT(
      union_of_stop_ids({.tokenizer_eos = 3, .config_eos = config, .generation_eos = generation, .added = added}, 200),
      ElementsAre(1, 3, 8, 50, 106));
  EXPECT_TRUE(union_of_stop_ids({}, 200).empty());
}

TEST(StopIds, OutsideTheVocabularyAreLeftOutFromFilesAndRefusedFromFlags) {
  const int64_t ids[] = {7, 1000};
  EXPECT_THAT(union_of_stop_ids({.tokenizer_eos = {}, .config_eos = ids, .generation_eos = {}, .added = {}}, 200),
              ElementsAre(7));
  EXPECT_THROW(union_of_stop_ids({.tokenizer_eos = {}, .config_eos = {}, .generation_eos = {}, .added = ids}, 200),
               Error);
}

}  // namespace
}  // namespace loft
