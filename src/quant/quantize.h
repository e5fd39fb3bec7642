// quant: from dense weights to every quantized format, byte for byte what `mx.quantize` of mlx 0.32.4 writes on a CPU.
// What enters: a view of dense rows. What leaves: packed words, scales and biases in the caller's memory.
#pragma once
#include "quant/format.h"

namespace loft {

/// Where quantize_rows writes: the parts of the weight as QuantWeight describes them, at any alignment.
struct QuantizedParts {
  void* words = nullptr;   // [n, k * bits / 32] uint32
  void* scales = nullptr;  // [n, k / group]: the dense type for affine, U8 for the fp modes
  void* biases = nullptr;  // as scales; affine only
};

/// Quantizes all rows of `dense` (kind Dense, [n, k], F32, F16 or BF16). Rows are independent: to use several threads,
/// split by slice_rows. Values must be finite (others give some code, never undefined behaviour).
///
/// affine: scale is the range over 2^bits - 1, at least 1e-7, then moved so that the end of larger magnitude is met
/// exactly; that end is the bias. All in f32; scale and bias are rounded to the dense type at the end, codes are not
/// chosen again. mxfp4, mxfp8: scale 2^round(log2(max|w| / 6 or 448)); nvfp4: max|w| / 6 as E4M3; each step rounded to
/// the dense type, as MLX computes it. One difference, on purpose: groups of magnitude below 2^-127 * 6 (mxfp4) or *
/// 448 (mxfp8) get the smallest scale, where MLX's exponent wraps around to a huge one.
///
/// Errors: Unsupported when the format is not valid, is Dense, or k is no multiple of the group.
void quantize_rows(const QuantWeight& dense, const QuantFormat& format, const QuantizedParts& out);

/// E4M3 nearest to x, ties to even, magnitudes from 448 on and NaN give 0x7e (with the sign).
uint8_t f32_to_e4m3(float x);

}  // namespace loft
