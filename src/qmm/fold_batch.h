// qmm: a batch of x folded into its rows, before the selector is asked.
#pragma once
#include "backend/qmm_kernel.h"

namespace loft {

/// x [B, m, k] over one weight is x [B m, k], if x lies in one piece: then the problem of B m rows without a batch.
/// Else the problem as it is: a strided x, a weight with a batch of its own and a broadcast x keep the batched path.
QmmProblem fold_batch(const QmmProblem& problem, bool x_is_contiguous);

}  // namespace loft
