// backend/cpu: weights in layout Panel16 as panels of bytes on 64-bit ARM.
#include <arm_neon.h>

#include "backend/cpu/qmm_codes_neon.h"
#include "quant/affine.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

struct Bytes {
  using Vector = uint8x16_t;
  static constexpr int64_t kSize = 16, kPanelCodeBytes = 1;
  static Vector load(const uint8_t* at) { return vld1q_u8(at); }
  template <int kShift>
  static Vector shift_right(Vector v) {
    if constexpr (kShift > 0) return vshrq_n_u8(v, kShift);
    if constexpr (kShift < 0) return vshlq_n_u8(v, -kShift);
    return v;
  }
  static Vector keep(Vector v, int mask) { return vandq_u8(v, vdupq_n_u8(uint8_t(mask))); }
  static Vector either(Vector a, Vector b) { return vorrq_u8(a, b); }
  static Vector fp4(Vector v) { return vqtbl1q_u8(vld1q_u8(kFp4Bytes), v); }
  template <int S>
  static void store(uint8_t* panel, int quad, int64_t part, Vector v) {
    vst1q_u8(panel + quad * 64 + part * kSize, v);
  }
};

void load_scales(const QuantWeight& w, const uint8_t* at, float* scale, float* bias) {
  const bool is_affine = w.format.kind == QuantKind::Affine;
  for (int64_t i = 0; i < kPanelOutputs; ++i) {
    const float s = is_affine                           ? load_float(at, w.scale_dtype, i)
                    : w.format.kind == QuantKind::Nvfp4 ? e4m3_to_f32(at[i]) * w.global_scale
                                                        : e8m0_to_f32(at[i]);
    scale[i] = is_affine ? s : s * kFp4Scale;
    bias[i] = is_affine ? load_float(at, w.scale_dtype, kPanelOutputs + i) : s * kFp4Bias;
  }
}

}  // namespace
}  // namespace loft

#include "backend/cpu/qmm_panel16_body.h"

namespace loft {

constexpr PanelSources kPanel16SourcesNeon = kPanel16Sources;

}  // namespace loft
