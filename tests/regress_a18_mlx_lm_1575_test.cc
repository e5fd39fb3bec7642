// Public report ml-explore/mlx-lm#1575: the XTC threshold took its minimum over the whole batch. Here two sequences
// with very different distributions and settings run in one batch, 200 seeds each, and must get what they get alone.
// Seen to fail with draws counted over all sequences, and with XTC's mass taken as the least of all rows so far.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/scripted_engine.h"

namespace loft {
namespace {

using namespace scripted;

const Vocabulary kVocabulary = {.pieces = {"x"}, .specials = {"<eos>"}};

/// The first prompt token picks the distribution: steep for 1, nearly flat for 2.
void two_distributions(std::span<const int32_t> tokens, std::span<float> row) {
  hashed_logits(tokens, row);
  for (float& x : row) x *= tokens[0] == 1 ? 3.0f : 0.05f;
}

struct Setting {
  const char* name;
  void (*apply)(SamplerParams&);
};
constexpr Setting kSettings[] = {
    {"xtc", [](SamplerParams& p) { p.xtc_probability = 0.8, p.xtc_threshold = 0.02; }},
    {"top_p", [](SamplerParams& p) { p.top_p = 0.7; }},
    {"min_p", [](SamplerParams& p) { p.min_p = 0.2; }},
    {"top_k", [](SamplerParams& p) { p.top_k = 5; }},
    {"penalties",
     [](SamplerParams& p) { p.repetition_penalty = 1.4, p.presence_penalty = 0.5, p.frequency_penalty = 0.3; }},
    {"bias", [](SamplerParams& p) { p.logit_bias = {{.id = 40, .bias = 6}}; }},
};

Request request(int32_t first, uint64_t seed, const Setting& setting) {
  Request r;
  r.prompt = {first, 65};
  r.max_tokens = 4;
  r.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  r.sampling.seed = seed;
  setting.apply(r.sampling);
  return r;
}

TEST(RegressA18, EachRowOfABatchIsSampledAsIfItWereAlone) {
  Scripted alone = make_engine(kVocabulary, two_distributions);
  EngineOptions options;
  options.parallel = 2;
  Scripted batch = make_engine(kVocabulary, two_distributions, options);
  for (size_t i = 0; i < std::size(kSettings); ++i) {
    // The neighbour has other settings too.
    const Setting& mine = kSettings[i];
    const Setting& theirs = kSettings[(i + 1) % std::size(kSettings)];
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Request a = request(1, seed, mine);
      const Request b = request(2, seed + 7, theirs);
      const SequenceId id_a = batch.engine->submit(a);
      const SequenceId id_b = batch.engine->submit(b);
      auto together = drain(*batch.engine);
      ASSERT_EQ(together[id_a].tokens, answer(*alone.engine, a).tokens) << mine.name << " seed " << seed;
      ASSERT_EQ(together[id_b].tokens, answer(*alone.engine, b).tokens) << theirs.name << " seed " << seed;
    }
  }
  EXPECT_EQ(batch.model->n_sequences_at_most, 2u);
}

}  // namespace
}  // namespace loft
