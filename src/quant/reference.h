// quant: the slow truth for every format. What enters: a weight view and f32 activations. What leaves: f32 weights and
// products summed in double. Kernel tests and tables compare with these; nothing here is meant to be fast.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "quant/format.h"

namespace loft {

/// All weights of w as f32, [n, k], by dequantize_run.
std::vector<float> reference_dequantize(const QuantWeight& w);

/// y = x W^T in double: x [m, k], result [m, n]. Each product is exact in double (both factors are f32), so the error
/// is that of k additions in double. x.size() is a multiple of w.k.
std::vector<double> reference_matmul(std::span<const float> x, const QuantWeight& w);

/// Bounds for a kernel's error: sum over k of |x| |w| for each of y's elements, [m, n].
std::vector<double> reference_abs_matmul(std::span<const float> x, const QuantWeight& w);

}  // namespace loft
