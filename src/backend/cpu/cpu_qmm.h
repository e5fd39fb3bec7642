// backend/cpu: the quantized product. The table of rows, and the parallel loop that runs the rows a call names.
#pragma once
#include <span>

#include "backend/cpu/thread_pool.h"
#include "backend/qmm_args.h"
#include "backend/qmm_kernel.h"

namespace loft {

/// Rows for every CPU, best first, the scalar reference last. A row whose code this build lacks has a null entry.
std::span<const QmmKernel> cpu_qmm_table();

/// y_i = x W_i^T for all parts, by the rows they name (each from cpu_qmm_table). Bytes of y depend neither on the
/// number of threads nor, for canonical rows of equal arithmetic, on m. Nothing is allocated. x and y must not overlap.
void cpu_run_qmm(ThreadPool& pool, const QmmArgs& args);

}  // namespace loft
