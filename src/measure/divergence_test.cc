// Divergence of rows worked out by hand, and of scripted models.
#include "measure/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

using scripted::HostMemoryBackend;
using scripted::ScriptedModel;

TEST(Divergence, ARowByHand) {
  const std::vector<float> a = {std::log(3.0f), 0}, b = {0, 0};  // 3/4, 1/4 against 1/2, 1/2
  EXPECT_NEAR(row_divergence(a, b), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_EQ(row_divergence(a, a), 0);
  const std::vector<float> shifted = {a[0] + 5, a[1] + 5};  // the same distribution
  EXPECT_NEAR(row_divergence(a, shifted), 0, 1e-7);
}

Divergence of(const scripted::LogitsFn& reference, const scripted::LogitsFn& run, int64_t block) {
  HostMemoryBackend backend;
  ScriptedModel a(257, 4096, reference), b(257, 4096, run);
  std::vector<int32_t> ids;
  for (int i = 0; i < 42; ++i) ids.push_back(i);
  const auto windows = plan_windows({.mode = PerplexityMode::Llama, .length = 20}, ids, {});
  Divergence d;
  run_divergence({backend, a}, {backend, b}, windows, block, d, [] { return true; });
  return d;
}

// The logits of the scripted model depend on all tokens before: another block size gives the same only when nothing is
// lost between blocks.
TEST(Divergence, BlocksOfRowsDoNotMatter) {
  const auto other = [](std::span<const int32_t> tokens, std::span<float> row) {
    scripted::hashed_logits(tokens, row);
    row[5] += 4;
  };
  const Divergence whole = of(scripted::hashed_logits, other, 64), cut = of(scripted::hashed_logits, other, 3);
  EXPECT_EQ(whole.kl.size(), 18u);  // two windows, targets 11 to 19
  EXPECT_EQ(whole.kl, cut.kl);
  EXPECT_EQ(whole.run.mean(), cut.run.mean());
  EXPECT_NE(whole.run.mean(), whole.reference.mean());
  EXPECT_LT(whole.n_same_top, 18);
  EXPECT_GT(divergence_json(whole)["kl"]["mean"], 0);
}

TEST(Divergence, EqualRunsDoNotDiverge) {
  const Divergence d = of(scripted::hashed_logits, scripted::hashed_logits, 8);
  EXPECT_EQ(d.n_same_top, 18);
  EXPECT_EQ(divergence_json(d)["kl"]["max"], 0);
  EXPECT_EQ(d.run.mean(), d.reference.mean());
}

}  // namespace
}  // namespace loft
