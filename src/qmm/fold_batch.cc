#include "qmm/fold_batch.h"

namespace loft {

QmmProblem fold_batch(const QmmProblem& problem, bool x_is_contiguous) {
  const QmmSpec& spec = problem.spec;
  if (spec.batch_x <= 1 || spec.batch_w != 1 || !x_is_contiguous) return problem;
  QmmProblem folded = problem;
  folded.spec.batch_x = 1;
  folded.m = problem.m * spec.batch_x;
  return folded;
}

}  // namespace loft
