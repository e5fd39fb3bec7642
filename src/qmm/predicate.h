// qmm: whether a product is a dense GEMM over dequantized weights. Pure, as the selector that it asks.
#pragma once
#include "backend/device_info.h"
#include "backend/qmm_kernel.h"

namespace loft {

/// True when the product runs through either of the two dequantize + GEMM routes, with 2 rows or more of f16 or
/// bf16: then its arithmetic is that of a dense product over the rounded weights. Neither route is taken where the
/// device has no GEMM library. Asks the table of the device's kind, under qmm-route-as that of the device which
/// decides. This is the published predicate, which until its fix knew one of the routes only.
bool quantized_matmul_runs_dequant_gemm(const DeviceInfo& device, const QmmProblem& problem, const QmmPolicy& policy);

}  // namespace loft
