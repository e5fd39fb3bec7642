// qmm: which batches fold into rows.
#include "qmm/fold_batch.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

QmmProblem problem_of(int batch_x, int batch_w, int64_t m) {
  QmmProblem p;
  p.m = m;
  p.spec.batch_x = batch_x;
  p.spec.batch_w = batch_w;
  return p;
}

bool is_unchanged(const QmmProblem& p, bool x_is_contiguous) {
  const QmmProblem folded = fold_batch(p, x_is_contiguous);
  return folded.m == p.m && folded.spec.batch_x == p.spec.batch_x && folded.spec.batch_w == p.spec.batch_w;
}

TEST(FoldBatch, AContiguousBatchOverOneWeightBecomesRows) {
  for (int batch : {2, 4, 8}) {
    for (int64_t m : {1, 3}) {
      const QmmProblem folded = fold_batch(problem_of(batch, 1, m), true);
      EXPECT_EQ(folded.m, batch * m);
      EXPECT_EQ(folded.spec.batch_x, 1);
      EXPECT_EQ(folded.spec.batch_w, 1);
    }
  }
}

/// Seen to fail with either question taken out. Mutants: fold_strided, fold_batched_weight.
TEST(FoldBatch, AStridedXABatchedWeightAndABroadcastStayABatch) {
  EXPECT_TRUE(is_unchanged(problem_of(4, 1, 1), false));
  EXPECT_TRUE(is_unchanged(problem_of(4, 4, 1), true));
  EXPECT_TRUE(is_unchanged(problem_of(1, 4, 1), true));
  EXPECT_TRUE(is_unchanged(problem_of(1, 1, 5), true));
}

}  // namespace
}  // namespace loft
