// backend/cpu: weights of a checkpoint as panels of bytes on 64-bit ARM, sixteen inputs of an output at a time: 2 *
// bits bytes of one row become 16 codes, whose four dwords go to four quads of the panel.
#include <arm_neon.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/qmm_codes_neon.h"
#include "quant/affine.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

constexpr int64_t kStep = 16;

/// Where 16 codes of a width lie: code i within 16 bits from byte from[2 i], `down[i]` bits (negative: to the right)
/// off.
struct Windows {
  uint8_t from[32];
  int16_t down[16];
};
constexpr Windows make_windows(int bits) {
  Windows w{};
  for (int i = 0; i < 16; ++i) {
    w.from[2 * i] = uint8_t(i * bits / 8);
    w.from[2 * i + 1] = uint8_t(i * bits / 8 + 1);
    w.down[i] = int16_t(-(i * bits % 8));
  }
  return w;
}
template <int kBits>
constexpr Windows kWindows = make_windows(kBits);

template <int kBits>
inline uint8x16_t sixteen_codes(const uint8_t* at) {
  if constexpr (kBits == 8) return vld1q_u8(at);
  if constexpr (kBits == 4) {
    const uint8x8_t pairs = vld1_u8(at);
    const uint8x8x2_t both = vzip_u8(vand_u8(pairs, vdup_n_u8(15)), vshr_n_u8(pairs, 4));
    return vcombine_u8(both.val[0], both.val[1]);
  }
  alignas(16) uint8_t bytes[16] = {};
  std::memcpy(bytes, at, 2 * kBits);
  const uint8x16_t packed = vld1q_u8(bytes);
  const uint16x8_t mask = vdupq_n_u16((1 << kBits) - 1);
  uint8x8_t half[2];
  for (int i = 0; i < 2; ++i) {
    const uint16x8_t windows = vreinterpretq_u16_u8(vqtbl1q_u8(packed, vld1q_u8(kWindows<kBits>.from + 16 * i)));
    half[i] = vmovn_u16(vandq_u16(vshlq_u16(windows, vld1q_s16(kWindows<kBits>.down + 8 * i)), mask));
  }
  return vcombine_u8(half[0], half[1]);
}

template <int kBits, bool kFp4>
void panel_codes(const QuantWeight& w, int64_t n0, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel) {
  const int64_t pitch = w.k * kBits / 8;
  const auto* const words = static_cast<const uint8_t*>(w.words);
  const uint8x16_t fp4 = vld1q_u8(kFp4Bytes);
  Asker asker(ahead, kPanelOutputs);
  for (int64_t i = 0; i < kPanelOutputs; ++i) {
    const uint8_t* at = words + std::min(n0 + i, w.n - 1) * pitch + first * kBits / 8;
    uint8_t* out = panel + i * 4;
    asker.ask();
    for (int64_t k = 0; k < inputs; k += kStep, at += 2 * kBits, out += 4 * 64) {
      uint8x16_t codes = sixteen_codes<kBits>(at);
      if constexpr (kFp4) codes = vqtbl1q_u8(fp4, codes);
      const uint32x4_t quads = vreinterpretq_u32_u8(codes);
      vst1q_lane_u32(reinterpret_cast<uint32_t*>(out), quads, 0);
      vst1q_lane_u32(reinterpret_cast<uint32_t*>(out + 64), quads, 1);
      vst1q_lane_u32(reinterpret_cast<uint32_t*>(out + 128), quads, 2);
      vst1q_lane_u32(reinterpret_cast<uint32_t*>(out + 192), quads, 3);
    }
  }
}

void panel_affine_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  for (int64_t i = 0; i < kPanelOutputs; ++i) {
    const int64_t row = std::min(n0 + i, w.n - 1) * groups;
    for (int64_t g = 0; g < groups; ++g) {
      scales[g * 2 * kPanelOutputs + i] = load_float(w.scales, w.scale_dtype, row + g);
      scales[(g * 2 + 1) * kPanelOutputs + i] = load_float(w.biases, w.scale_dtype, row + g);
    }
  }
}

void panel_fp4_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const bool is_nvfp4 = w.format.kind == QuantKind::Nvfp4;
  for (int64_t i = 0; i < kPanelOutputs; ++i) {
    const auto* const row = static_cast<const uint8_t*>(w.scales) + std::min(n0 + i, w.n - 1) * groups;
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = is_nvfp4 ? e4m3_to_f32(row[g]) * w.global_scale : e8m0_to_f32(row[g]);
      scales[g * 2 * kPanelOutputs + i] = scale * kFp4Scale;
      scales[(g * 2 + 1) * kPanelOutputs + i] = scale * kFp4Bias;
    }
  }
}

}  // namespace

constexpr PanelSources kPanelSourcesNeon = panel_sources([]<int kBits, bool kFp4>() {
  return PanelSource{kStep, panel_codes<kBits, kFp4>, kFp4 ? panel_fp4_scales : panel_affine_scales};
});

}  // namespace loft
