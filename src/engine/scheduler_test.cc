// The plan of a step, from numbers alone.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

std::vector<PlannedRows> plan(const std::vector<SequenceNeed>& needs, StepLimits limits = {}) {
  std::vector<PlannedRows> p;
  plan_step(needs, limits, p);
  return p;
}

TEST(Scheduler, AShortPromptGoesInAtOnceAndWantsItsLogits) {
  const auto p = plan({{.n_pending = 5}});
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p[0].n_rows, 5);
  EXPECT_TRUE(p[0].wants_logits);
}

TEST(Scheduler, ALongPromptIsReadInChunksAndOnlyTheLastWantsLogits) {
  const StepLimits limits{.max_rows = 8, .prefill_chunk = 4, .prefill_chunk_shared = 2};
  const auto p = plan({{.n_pending = 9}}, limits);
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p[0].n_rows, 4);
  EXPECT_FALSE(p[0].wants_logits);
  EXPECT_TRUE(plan({{.n_pending = 4}}, limits)[0].wants_logits);
}

TEST(Scheduler, DecodingSequencesAlwaysGoInAndLeaveThePromptASmallerChunk) {
  const StepLimits limits{.max_rows = 8, .prefill_chunk = 8, .prefill_chunk_shared = 3};
  const auto p =
      plan({{.n_pending = 20}, {.n_pending = 1, .is_decoding = true}, {.n_pending = 1, .is_decoding = true}}, limits);
  ASSERT_EQ(p.size(), 3u);
  EXPECT_EQ(p[0].n_rows, 3);
  EXPECT_FALSE(p[0].wants_logits);
  EXPECT_EQ(p[1].n_rows, 1);
  EXPECT_EQ(p[2].n_rows, 1);
  EXPECT_TRUE(p[2].wants_logits);
}

TEST(Scheduler, PromptsAreServedOldestFirst) {
  const StepLimits limits{.max_rows = 8, .prefill_chunk = 8, .prefill_chunk_shared = 8};
  const auto p = plan({{.n_pending = 6}, {.n_pending = 6}, {.n_pending = 6}}, limits);
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].n_rows, 6);
  EXPECT_EQ(p[1].n_rows, 2);
}

TEST(Scheduler, RowsNeverExceedTheLimitAndEveryCallMakesProgress) {
  const StepLimits limits{.max_rows = 2, .prefill_chunk = 2, .prefill_chunk_shared = 1};
  std::vector<SequenceNeed> needs(5, {.n_pending = 1, .is_decoding = true});
  EXPECT_EQ(plan(needs, limits).size(), 2u);
  needs[0].n_pending = needs[1].n_pending = 0;
  EXPECT_EQ(plan(needs, limits)[0].index, 2u);
  EXPECT_TRUE(plan({}, limits).empty());
}

}  // namespace
}  // namespace loft
