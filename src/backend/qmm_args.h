// backend: one call of the quantized product, as ops/linear hands it to a backend.
#pragma once
#include <span>

#include "backend/qmm_kernel.h"
#include "core/tensor.h"
#include "quant/format.h"

namespace loft {

/// One weight of a call, the row chosen for it, and where its outputs go.
struct QmmPart {
  const QmmKernel* kernel = nullptr;
  const QuantWeight* weight = nullptr;  // [n, k]
  const void* packed = nullptr;         // the weight in kernel->layout; null for Layout::Checkpoint
  const void* dense = nullptr;          // dequantize + GEMM: the weight decoded, [n, k] in x's type; null: panels
  Tensor y{};                           // [m, n], rows may be strided
};

/// Products that share one x, so that its rows are quantized once (q/k/v, gate/up).
struct QmmArgs {
  Tensor x;  // [m, k], contiguous
  std::span<const QmmPart> parts;
  void* workspace = nullptr;  // at least the largest workspace_bytes of the rows, 64-byte aligned
  size_t workspace_bytes = 0;
};

}  // namespace loft
