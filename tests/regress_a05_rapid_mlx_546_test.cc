// Public report raullenchai/Rapid-MLX#546: the tokenizer named one stop token and generation_config.json a second one;
// only the first was honoured and the model ran past the end of its turn. Seen to fail with each of the four sources
// left out of union_of_stop_ids.
#include <gtest/gtest.h>

#include "engine/generation_config.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

using namespace scripted;

const Vocabulary kVocabulary = {
    .pieces = {"ok", "more"}, .specials = {"<eos>", "<end_of_turn>", "<end_of_text>"}, .eos = "<eos>"};
const int32_t kEos = kVocabulary.special(0);        // named by the tokenizer
const int32_t kTurnEnd = kVocabulary.special(1);    // named by generation_config.json or a flag, where at all
const int32_t kConfigEos = kVocabulary.special(2);  // named by config.json

/// The answer "ok", `end`, "more" under the stop set of these sources.
Answer forced_answer(const std::string& generation_config, int32_t end, std::vector<int64_t> added = {}) {
  const GenerationConfig generation = parse_generation_config(generation_config, "generation_config.json");
  const int64_t config_eos[] = {kConfigEos};
  const auto tokenizer = make_tokenizer(kVocabulary);
  EngineOptions options;
  options.stop_ids = union_of_stop_ids({.tokenizer_eos = tokenizer->eos_id(),
                                        .config_eos = config_eos,
                                        .generation_eos = generation.eos_token_ids,
                                        .added = added},
                                       kVocabulary.size());
  Scripted s = make_engine(kVocabulary, forced({256, end, 257}, 1, kEos), options);
  Request r;
  r.prompt = {65};
  r.sampling = greedy();
  return answer(*s.engine, r);
}

void expect_stopped_after_ok(const Answer& a) {
  EXPECT_EQ(a.text, "ok");
  ASSERT_TRUE(a.finish);
  EXPECT_EQ(a.finish->reason, FinishReason::Stop);
  EXPECT_EQ(a.finish->usage.completion_tokens, 1);
}

TEST(RegressA05, EachIdOfAListEndsTheAnswerAndIsNotShown) {
  const std::string list = fmt::format(R"({{"eos_token_id": [{}, {}]}})", kEos, kTurnEnd);
  expect_stopped_after_ok(forced_answer(list, kTurnEnd));
  expect_stopped_after_ok(forced_answer(list, kEos));
}

TEST(RegressA05, AnIntegerInPlaceOfTheListDoesNotReplaceTheOtherSources) {
  const std::string one = fmt::format(R"({{"eos_token_id": {}}})", kTurnEnd);
  expect_stopped_after_ok(forced_answer(one, kTurnEnd));
  expect_stopped_after_ok(forced_answer(one, kEos));
  expect_stopped_after_ok(forced_answer(one, kConfigEos));
}

TEST(RegressA05, WithoutTheFileTheOtherSourcesStandAndAFlagAddsOne) {
  expect_stopped_after_ok(forced_answer("{}", kEos));
  EXPECT_EQ(forced_answer("{}", kTurnEnd).text, "okmore") << "nothing names the id";
  expect_stopped_after_ok(forced_answer("{}", kTurnEnd, {kTurnEnd}));
}

}  // namespace
}  // namespace loft
