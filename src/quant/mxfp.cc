// quant: decoding of mxfp4, mxfp8 and nvfp4. See mxfp.h.
#include "quant/mxfp.h"

#include <array>
#include <bit>
#include <limits>

namespace loft {
namespace {

constexpr std::array<float, 16> kE2m1 = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

constexpr float power_of_two(int exponent) {
  float value = 1.0f;
  for (; exponent > 0; --exponent) value *= 2.0f;
  for (; exponent < 0; ++exponent) value *= 0.5f;
  return value;
}

constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> table{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> 3;
    const int mantissa = code & 7;
    const float magnitude =
        exponent == 0 ? float(mantissa) * power_of_two(-9) : float(8 + mantissa) * power_of_two(exponent - 10);
    table[size_t(code)] = magnitude;
    table[size_t(code + 128)] = -magnitude;
  }
  table[0x7f] = std::numeric_limits<float>::quiet_NaN();
  table[0xff] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

constexpr std::array<float, 256> kE4m3 = make_e4m3();

}  // namespace

float e2m1_to_f32(uint8_t code) {
  return kE2m1[code & 15];
}

float e4m3_to_f32(uint8_t code) {
  return kE4m3[code];
}

float e8m0_to_f32(uint8_t code) {
  return std::bit_cast<float>(code == 0 ? 0x00400000u : uint32_t(code) << 23);  // 0x00400000 is 2^-127
}

float nvfp4_factor(float global_scale) {
  return global_scale / (448.0f * 6.0f);
}

void dequantize_mxfp(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out) {
  const int group = w.format.group;
  const auto* codes =
      static_cast<const uint8_t*>(w.words) + row * int64_t(word_row_bytes(w)) + first * w.format.bits / 8;
  const auto* scales = static_cast<const uint8_t*>(w.scales) + row * (w.k / group) + first / group;
  const bool is_nvfp4 = w.format.kind == QuantKind::Nvfp4;
  for (int64_t i = 0; i < count; i += group) {
    const uint8_t scale_code = scales[i / group];
    const float scale = is_nvfp4 ? e4m3_to_f32(scale_code) * w.global_scale : e8m0_to_f32(scale_code);
    if (w.format.bits == 8) {
      for (int64_t j = i; j < i + group; ++j) out[j] = kE4m3[codes[j]] * scale;
      continue;
    }
    for (int64_t j = i; j < i + group; j += 2) {
      const uint8_t pair = codes[j / 2];
      out[j] = kE2m1[pair & 15] * scale;
      out[j + 1] = kE2m1[pair >> 4] * scale;
    }
  }
}

}  // namespace loft
