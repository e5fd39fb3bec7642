// quant: MLX's affine format, w = q * scale + bias with unsigned codes q of 2, 3, 4, 5, 6 or 8 bits.
// What enters: views of packed words, scales and biases in any alignment. What leaves: f32 weights.
// Layout with a worked group: docs/format_mlx_affine.md.
#pragma once
#include <cstdint>

#include "quant/format.h"

namespace loft {

/// Codes [first, first + count) of one packed row into out [count]. The row is one little-endian bit stream, low bits
/// first: code i stands in bits [i * bits, (i + 1) * bits). first and count are multiples of 8, so runs start on a
/// byte; bits 1..8.
void unpack_codes(const void* row_words, int bits, int64_t first, int64_t count, uint8_t* out);

/// The inverse: codes [count] into count * bits / 8 bytes at row_words. count is a multiple of 8; bits 1..8.
void pack_codes(const uint8_t* codes, int bits, int64_t count, void* row_words);

/// dequantize_run for kind Affine: product and sum each rounded to f32 (no fused multiply-add), as MLX's CPU does.
void dequantize_affine(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out);

/// Element `index` of an array of F32, F16 or BF16 at any alignment, as f32 (exact).
float load_float(const void* array, DType dtype, int64_t index);

/// The inverse: x rounded to that type, ties to even.
void store_float(float x, DType dtype, void* array, int64_t index);

}  // namespace loft
