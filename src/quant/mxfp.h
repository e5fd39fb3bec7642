// quant: the small-float formats mxfp4, mxfp8 (OCP Microscaling v1.0) and nvfp4: a code times its group's one-byte
// scale, no biases. What enters: views of packed words and scales. What leaves: f32 weights.
#pragma once
#include <cstdint>

#include "quant/format.h"

namespace loft {

/// E2M1: sign in bit 3, magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6. Only the low four bits of `code` count.
float e2m1_to_f32(uint8_t code);

/// E4M3 without infinities: largest magnitude 448 (0x7e), subnormals in steps of 2^-9, 0x7f and 0xff are NaN.
float e4m3_to_f32(uint8_t code);

/// E8M0: 2^(code - 127). Code 0 is 2^-127, an f32 subnormal; 255 gives infinity, as MLX's dequantize has it (the OCP
/// text calls it NaN; no encoder writes it).
float e8m0_to_f32(uint8_t code);

/// QuantWeight::global_scale from the value of an nvfp4 checkpoint's `P.global_scale`: global_scale / (448 * 6).
float nvfp4_factor(float global_scale);

/// dequantize_run for kinds Mxfp4, Mxfp8 and Nvfp4: code * scale in f32. For nvfp4 the scale is first multiplied by
/// w.global_scale (rounded to f32), as in MLX.
void dequantize_mxfp(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out);

}  // namespace loft
