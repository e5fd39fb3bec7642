// backend/cpu: the quantized product. The table of rows, and the parallel loop that runs the rows a call names.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "backend/cpu/row_kernels.h"
#include "backend/cpu/thread_pool.h"
#include "backend/qmm_args.h"
#include "backend/qmm_kernel.h"

namespace loft {

/// Rows for every CPU, best first, the scalar reference last. A row whose code this build lacks has a null entry.
std::span<const QmmKernel> cpu_qmm_table();

/// Panels of the dequantize + GEMM rows: their size, what rounds them, and what happened in them. Updated by
/// cpu_run_qmm.
struct CpuPanels {
  int64_t bytes = 0;                       // DeviceInfo::panel_bytes
  std::atomic<uint64_t> gemm_fallbacks{};  // products of a panel that the library refused
  uint64_t high_water_bytes = 0;           // most workspace of panels in one call, all threads
  const RowKernels* kernels = &kRowKernelsScalar;
};

/// y_i = x W_i^T for all parts, by the rows they name (each from cpu_qmm_table). Bytes of y depend neither on the
/// number of threads nor, for canonical rows of equal arithmetic, on m. Nothing is allocated. x and y must not overlap.
void cpu_run_qmm(ThreadPool& pool, CpuPanels& panels, const QmmArgs& args);

/// out [n, k] of `dtype`: the weight decoded in f32 and rounded once.
void cpu_dequantize(ThreadPool& pool, const RowKernels& kernels, const QuantWeight& w, DType dtype, void* out);

}  // namespace loft
