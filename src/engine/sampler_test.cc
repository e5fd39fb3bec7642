// The samplers, each alone and in their order; and the promise that a row never feels its neighbours.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "core/error.h"
#include "engine/random.h"

namespace loft {
namespace {

using testing::HasSubstr;

SamplerParams neutral() {
  SamplerParams p;
  p.temperature = 1;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

std::vector<float> random_row(size_t n, uint32_t seed, float spread) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(n);
  for (float& x : row) x = normal(rng);
  return row;
}

int32_t draw(const SamplerParams& params, std::vector<float> row, std::vector<int32_t> tokens = {},
             int64_t n_prompt = 0, std::vector<int32_t> banned = {}) {
  SamplerScratch scratch;
  return sample_token(params, {.tokens = tokens, .n_prompt = n_prompt, .banned = banned}, row, scratch);
}

std::set<int32_t> kept_ids(SamplerParams params, const std::vector<float>& row, int n_seeds = 4000) {
  std::set<int32_t> ids;
  for (int seed = 0; seed < n_seeds; ++seed) {
    params.seed = uint64_t(seed);
    ids.insert(draw(params, row));
  }
  return ids;
}

const std::vector<float> kLogs = {std::log(0.5f), std::log(0.25f), std::log(0.15f), std::log(0.07f), std::log(0.03f)};

TEST(Sampler, GreedyTakesTheLargestLogitAndTheSmallerIdAmongEquals) {
  SamplerParams p;
  p.temperature = 0;
  EXPECT_EQ(draw(p, {1, 3, 2, 3, -1}), 1);
  EXPECT_EQ(draw(p, {-5}), 0);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplerParams p = neutral();
  std::map<int32_t, int> counts;
  for (int seed = 0; seed < 20000; ++seed) {
    p.seed = uint64_t(seed);
    ++counts[draw(p, kLogs)];
  }
  EXPECT_NEAR(counts[0] / 20000.0, 0.5, 0.015);  // four standard errors
  EXPECT_NEAR(counts[1] / 20000.0, 0.25, 0.013);
  EXPECT_NEAR(counts[4] / 20000.0, 0.03, 0.005);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplerParams p = neutral();
  p.temperature = 0.05;
  EXPECT_EQ(kept_ids(p, kLogs, 500), (std::set<int32_t>{0}));
  p.temperature = 50;
  std::map<int32_t, int> counts;
  for (int seed = 0; seed < 5000; ++seed) {
    p.seed = uint64_t(seed);
    ++counts[draw(p, kLogs)];
  }
  EXPECT_NEAR(counts[4] / 5000.0, 0.2, 0.03);
}

TEST(Sampler, EachFilterKeepsWhatItsDefinitionSays) {
  SamplerParams p = neutral();
  p.top_k = 2;
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0, 1}));
  p = neutral();
  p.top_p = 0.8;  // 0.5 + 0.25 falls short, 0.15 more reaches it
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0, 1, 2}));
  p = neutral();
  p.min_p = 0.25;  // at least 0.125
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0, 1, 2}));
  p = neutral();
  p.xtc_probability = 1;
  p.xtc_threshold = 0.1;  // 0.5, 0.25 and 0.15 are above; the last of them stays
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{2, 3, 4}));
  p.xtc_threshold = 0.4;  // only one is above: nothing to exclude
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(Sampler, TopPIsRelativeToWhatTopKLeft) {
  SamplerParams p = neutral();
  p.top_k = 2;
  p.top_p = 0.6;  // 0.5 of 0.75 is two thirds
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0}));
}

TEST(Sampler, TemperatureDoesNotChangeWhatTopPKeeps) {
  SamplerParams p = neutral();
  p.top_p = 0.6;
  p.temperature = 30;
  EXPECT_EQ(kept_ids(p, kLogs), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, TopPOverALargeFlatRowNeedsManyCandidates) {
  const std::vector<float> flat(5000, 0.25f);
  SamplerParams p = neutral();
  p.top_p = 0.5;
  p.seed = 3;
  for (int seed = 0; seed < 200; ++seed) {
    p.seed = uint64_t(seed);
    EXPECT_LT(draw(p, flat), 2501);  // equal logits keep the smaller ids
  }
}

/// Top-p and the draw by their definition, over the whole row sorted.
int32_t sorted_draw(const SamplerParams& p, const std::vector<float>& row) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < row.size(); ++i) all.push_back({int32_t(i), row[i]});
  std::sort(all.begin(), all.end(), comes_before);
  double total = 0, mass = 0, drawn = 0, sum = 0;
  for (const Candidate& c : all) total += exp_weight(c.logit - all[0].logit);
  size_t n = 0;
  while (n < all.size() && (n == 0 || mass < p.top_p * total)) mass += exp_weight(all[n++].logit - all[0].logit);
  const auto weight = [&](size_t i) { return exp_weight((all[i].logit - all[0].logit) / float(p.temperature)); };
  for (size_t i = 0; i < n; ++i) drawn += weight(i);
  const double target = uniform_draw(p.seed, 0, 0) * drawn;
  for (size_t i = 0; i < n; ++i) {
    sum += weight(i);
    if (target < sum) return all[i].id;
  }
  return all[n - 1].id;
}

// Seen to fail: WeightedRow::find that leaves out the sum of the buckets before.
TEST(Sampler, TopPOverABroadRowDrawsWhatTheSortedRowGives) {
  struct Case {
    float spread;
    double top_p, temperature;
  };
  for (const Case& c :
       {Case{3, 0.95, 0.8}, {1, 0.95, 1}, {1, 0.5, 0.05}, {0.001f, 0.9, 2}, {0, 0.7, 1}, {8, 0.999, 30}}) {
    std::vector<float> row = random_row(20000, 5, c.spread);
    for (size_t i = 0; i < row.size(); i += 7) row[i] = row[i / 2];  // equals
    row[11] = -std::numeric_limits<float>::infinity();
    SamplerParams p = neutral();
    p.top_p = c.top_p;
    p.temperature = c.temperature;
    for (int seed = 0; seed < 40; ++seed) {
      p.seed = uint64_t(seed);
      ASSERT_EQ(draw(p, row), sorted_draw(p, row)) << c.spread << " " << c.top_p << " seed " << seed;
    }
  }
}

TEST(Sampler, PenaltiesTouchOnlyTheTokensTheyName) {
  SamplerParams p = neutral();
  p.temperature = 0;
  p.repetition_penalty = 2;
  EXPECT_EQ(draw(p, {4, 3, -1}, {0}, 1), 1) << "prompt tokens count for repetition";
  EXPECT_EQ(draw(p, {-4, -3, -9}, {1}, 0), 0) << "a negative logit moves down too";
  p.repetition_penalty = 0;
  EXPECT_EQ(draw(p, {4, 3, -1}, {0}, 1), 0) << "0 means off";
  p.presence_penalty = 1.5;
  EXPECT_EQ(draw(p, {4, 3, -1}, {0}, 1), 0) << "presence looks at the answer only";
  EXPECT_EQ(draw(p, {4, 3, -1}, {0}, 0), 1);
  p.presence_penalty = 0;
  p.frequency_penalty = 0.6;
  EXPECT_EQ(draw(p, {4, 3, -1}, {0}, 0), 0);
  EXPECT_EQ(draw(p, {4, 3, -1}, {0, 2, 0}, 0), 1) << "twice";
  p.penalty_window = 1;
  EXPECT_EQ(draw(p, {4, 3, -1}, {0, 2, 0}, 0), 0) << "only one of them is in the window";
}

TEST(Sampler, LogitBiasMovesTheChoiceAndIdsWithoutAPieceAreNeverDrawn) {
  SamplerParams p = neutral();
  p.temperature = 0;
  p.logit_bias = {{.id = 2, .bias = 10}};
  EXPECT_EQ(draw(p, {4, 3, -1}), 2);
  EXPECT_EQ(draw(p, {4, 3, -1}, {}, 0, {2}), 0) << "no bias brings back a banned id";
  p = neutral();
  for (int seed = 0; seed < 300; ++seed) {
    p.seed = uint64_t(seed);
    EXPECT_NE(draw(p, {9, 3, 1}, {}, 0, {0}), 0);
    p.top_k = seed % 2 ? 3 : 0;
    p.min_p = seed % 3 ? 0.01 : 0;
  }
}

TEST(Sampler, BadSettingsAreRefusedWithNameFoundAndWanted) {
  const auto message = [](const SamplerParams& p) -> std::string {
    try {
      check_sampler_params(p, 10);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::BadRequest);
      return e.what();
    }
    return "accepted";
  };
  SamplerParams p;
  EXPECT_EQ(message(p), "accepted");
  p.temperature = -1;
  EXPECT_THAT(message(p), HasSubstr("temperature must be between 0 and 100, got -1"));
  p = {};
  p.top_p = std::nan("");
  EXPECT_THAT(message(p), HasSubstr("top_p"));
  p = {};
  p.top_k = -3;
  EXPECT_THAT(message(p), HasSubstr("top_k"));
  p = {};
  p.logit_bias = {{.id = 10, .bias = 1}};
  EXPECT_THAT(message(p), HasSubstr("token id 10 is outside the vocabulary of 10 ids"));
  p.logit_bias = {{.id = -1, .bias = 1}};
  EXPECT_THAT(message(p), HasSubstr("token id -1"));
  p.logit_bias = {{.id = 1, .bias = INFINITY}};
  EXPECT_THAT(message(p), HasSubstr("logit_bias of token 1"));
}

TEST(Logits, SelectTopEqualsASortForEveryK) {
  std::mt19937 rng(5);
  for (size_t n : {1u, 2u, 15u, 16u, 17u, 1000u, 5003u}) {
    std::vector<float> row(n);
    for (float& x : row) x = float(int(rng() % 97)) / 8;  // many ties
    std::vector<Candidate> all;
    for (size_t i = 0; i < n; ++i) all.push_back({int32_t(i), row[i]});
    std::sort(all.begin(), all.end(), comes_before);
    for (int64_t k : {int64_t(0), int64_t(1), int64_t(2), int64_t(40), int64_t(256), int64_t(n), int64_t(n + 9)}) {
      std::vector<Candidate> top;
      select_top(row, k, top);
      ASSERT_EQ(top.size(), std::min(size_t(k), n));
      for (size_t i = 0; i < top.size(); ++i) ASSERT_EQ(top[i].id, all[i].id) << n << " " << k << " " << i;
    }
  }
}

TEST(Logits, SumExpIsCloseToTheSumInDouble) {
  for (float spread : {0.1f, 3.0f, 40.0f}) {
    const std::vector<float> row = random_row(70001, 11, spread);
    const float m = *std::max_element(row.begin(), row.end());
    double exact = 0;
    for (float x : row) exact += std::exp(double(x) - double(m));
    EXPECT_NEAR(sum_exp(row, m) / exact, 1.0, 1e-6);
  }
}

TEST(Logits, NonFiniteValuesAreFoundWhereverTheyStand) {
  std::vector<float> row = random_row(9001, 3, 2);
  EXPECT_EQ(find_non_finite(row), std::nullopt);
  for (size_t i : {size_t(0), size_t(4095), size_t(4096), size_t(9000)}) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> broken = row;
      broken[i] = bad;
      EXPECT_EQ(find_non_finite(broken), int64_t(i));
    }
  }
}

TEST(Logits, LogprobsAreThoseOfTheWholeRow) {
  const RowLogprobs r = row_logprobs(kLogs, 3, 2);
  EXPECT_NEAR(r.chosen.logprob, std::log(0.07), 1e-6);
  ASSERT_EQ(r.top.size(), 2u);
  EXPECT_EQ(r.top[0].id, 0);
  EXPECT_NEAR(r.top[1].logprob, std::log(0.25), 1e-6);
}

}  // namespace
}  // namespace loft
