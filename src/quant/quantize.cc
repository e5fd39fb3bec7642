// quant: quantizers of all formats. See quantize.h.
#include "quant/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "quant/affine.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

constexpr int kMaxGroup = 128;
using Group = std::array<float, kMaxGroup>;
using Codes = std::array<uint8_t, kMaxGroup>;

// A value as the dense type holds it. MLX's fp modes round after each step.
template <DType kType>
float rounded(float x) {
  if constexpr (kType == DType::F16) return f16_to_f32(f32_to_f16(x));
  if constexpr (kType == DType::BF16) return bf16_to_f32(f32_to_bf16(x));
  return x;
}

struct AffineGroup {
  float scale;
  float bias;
};

AffineGroup choose_affine(const Group& w, int group, float max_code) {
  constexpr float kSmallestScale = 1e-7f;
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (int i = 0; i < group; ++i) {
    high = std::max(high, w[size_t(i)]);
    low = std::min(low, w[size_t(i)]);
  }
  const bool low_is_larger = std::fabs(low) > std::fabs(high);
  const float step = std::max((high - low) / max_code, kSmallestScale);
  const float scale = low_is_larger ? step : -step;
  const float edge = low_is_larger ? low : high;
  const float steps_to_edge = std::rint(edge / scale);
  if (steps_to_edge == 0) return {.scale = scale, .bias = 0};
  return {.scale = edge / steps_to_edge, .bias = edge};
}

void quantize_affine_group(const Group& w, int64_t index, const QuantWeight& dense, const QuantFormat& format,
                           const QuantizedParts& out) {
  const float max_code = float((1 << format.bits) - 1);
  const AffineGroup chosen = choose_affine(w, format.group, max_code);
  Codes codes;
  for (int i = 0; i < format.group; ++i) {
    float q = (w[size_t(i)] - chosen.bias) / chosen.scale;
    q = q > 0 ? q : 0;  // also what is not a number
    q = q < max_code ? q : max_code;
    codes[size_t(i)] = uint8_t(q + 0x1p23f - 0x1p23f);  // rounds to nearest, ties to even
  }
  pack_codes(codes.data(), format.bits, format.group,
             static_cast<uint8_t*>(out.words) + index * (format.group / 8 * format.bits));
  store_float(chosen.scale, dense.dense_dtype, out.scales, index);
  store_float(chosen.bias, dense.dense_dtype, out.biases, index);
}

// E2M1 code whose value is nearest to x; of two equally near, the one that comes first in 0 .. 6, -0 .. -6.
uint8_t nearest_e2m1(float x) {
  constexpr float kUpTo[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  constexpr float kDifferencesAreExactBelow = 0x1p21f;
  const float magnitude = std::fabs(x);
  if (magnitude < kDifferencesAreExactBelow) {
    int code = 0;
    for (float up_to : kUpTo) code += magnitude > up_to;
    return uint8_t(x < 0 && code > 0 ? code + 8 : code);
  }
  // Beyond, differences to several codes round to the same value and MLX takes the first of them.
  uint8_t best = 0;
  float best_distance = std::numeric_limits<float>::infinity();
  for (uint8_t code = 0; code < 16; ++code) {
    const float distance = std::fabs(x - e2m1_to_f32(code));
    if (distance < best_distance) {
      best = code;
      best_distance = distance;
    }
  }
  return best;
}

// The scale as its byte and as the value that MLX divides by.
struct FpScale {
  uint8_t code;
  float value;
};

// The smallest power of two that is not below x > 0, from the bits of x: exact where log2 would round.
uint8_t e8m0_at_least(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (bits <= 0x00400000u) return 0;  // 2^-127
  return uint8_t(std::min((bits + 0x7fffffu) >> 23, 254u));
}

template <DType kType>
FpScale choose_fp_scale(const Group& w, const QuantFormat& format) {
  float largest = 0;
  for (int i = 0; i < format.group; ++i) largest = std::max(largest, std::fabs(w[size_t(i)]));
  const float ratio = rounded<kType>(largest / (format.bits == 4 ? 6.0f : 448.0f));
  if (format.kind == QuantKind::Nvfp4) {
    const uint8_t code = f32_to_e4m3(ratio);
    return {.code = code, .value = e4m3_to_f32(code)};
  }
  const uint8_t code = ratio == 0 ? 127 : e8m0_at_least(ratio);
  return {.code = code, .value = e8m0_to_f32(code)};
}

template <DType kType>
void quantize_fp_group(const Group& w, int64_t index, const QuantFormat& format, const QuantizedParts& out) {
  const FpScale scale = choose_fp_scale<kType>(w, format);
  Codes codes;
  for (int i = 0; i < format.group; ++i) {
    const float x = scale.value == 0 ? 0 : rounded<kType>(w[size_t(i)] / scale.value);
    codes[size_t(i)] = format.bits == 4 ? nearest_e2m1(x) : f32_to_e4m3(x);
  }
  pack_codes(codes.data(), format.bits, format.group,
             static_cast<uint8_t*>(out.words) + index * (format.group / 8 * format.bits));
  static_cast<uint8_t*>(out.scales)[index] = scale.code;
}

void quantize_group(const Group& w, int64_t index, const QuantWeight& dense, const QuantFormat& format,
                    const QuantizedParts& out) {
  if (format.kind == QuantKind::Affine) return quantize_affine_group(w, index, dense, format, out);
  if (dense.dense_dtype == DType::F16) return quantize_fp_group<DType::F16>(w, index, format, out);
  if (dense.dense_dtype == DType::BF16) return quantize_fp_group<DType::BF16>(w, index, format, out);
  quantize_fp_group<DType::F32>(w, index, format, out);
}

}  // namespace

uint8_t f32_to_e4m3(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint8_t sign = uint8_t((bits >> 24) & 0x80u);
  const float magnitude = std::fabs(x);
  if (!(magnitude < 448)) return uint8_t(sign | 0x7e);
  if (magnitude < 0x1p-6f) return uint8_t(sign | uint8_t(std::rint(magnitude * 512)));
  const uint32_t kept = (bits & 0x7fffffffu) + 0x7ffffu + ((bits >> 20) & 1u);
  return uint8_t(sign | ((kept >> 20) - (120u << 3)));  // the exponent's bias is 7 in place of 127
}

void quantize_rows(const QuantWeight& dense, const QuantFormat& format, const QuantizedParts& out) {
  LOFT_CHECK(dense.format.kind == QuantKind::Dense && is_float(dense.dense_dtype));
  if (format.kind == QuantKind::Dense || !is_valid(format)) {
    fail(Code::Unsupported, "cannot quantize to {} bits, group {}, mode {}", format.bits, format.group,
         format_row(format.kind).name);
  }
  if (dense.k % format.group != 0) {
    fail(Code::Unsupported, "rows of {} weights cannot be quantized in groups of {}", dense.k, format.group);
  }
  const int64_t groups_a_row = dense.k / format.group;
  Group w;
  for (int64_t row = 0; row < dense.n; ++row) {
    for (int64_t g = 0; g < groups_a_row; ++g) {
      dequantize_run(dense, row, g * format.group, format.group, w.data());
      quantize_group(w, row * groups_a_row + g, dense, format, out);
    }
  }
}

}  // namespace loft
