// backend/cpu: sixteen floats as four registers of 64-bit ARM. Included by simd.h alone, which says what the names
// mean.
#pragma once

namespace loft::LOFT_SIMD_NAMESPACE {

struct F {
  float32x4_t v[4];
};
struct I {
  int32x4_t v[4];
};
template <class T, class U, class Op>
LOFT_INLINE T each(const U& a, Op op) {
  return {{op(a.v[0]), op(a.v[1]), op(a.v[2]), op(a.v[3])}};
}
template <class T, class U, class Op>
LOFT_INLINE T each(const U& a, const U& b, Op op) {
  return {{op(a.v[0], b.v[0]), op(a.v[1], b.v[1]), op(a.v[2], b.v[2]), op(a.v[3], b.v[3])}};
}
LOFT_INLINE F set1(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {{v, v, v, v}};
}
LOFT_INLINE F zero() {
  return set1(0.0f);
}
LOFT_INLINE F add(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); });
}
LOFT_INLINE F sub(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vsubq_f32(x, y); });
}
LOFT_INLINE F mul(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); });
}
LOFT_INLINE F div(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vdivq_f32(x, y); });
}
LOFT_INLINE F fma(F a, F b, F c) {
  for (int i = 0; i < 4; ++i) c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]);
  return c;
}
LOFT_INLINE F fnma(F a, F b, F c) {
  for (int i = 0; i < 4; ++i) c.v[i] = vfmsq_f32(c.v[i], a.v[i], b.v[i]);
  return c;
}
// As x86's: the second operand where either is NaN.
LOFT_INLINE F max(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); });
}
LOFT_INLINE F min(F a, F b) {
  return each<F>(a, b, [](float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); });
}
LOFT_INLINE I bits(F a) {
  return each<I>(a, [](float32x4_t x) { return vreinterpretq_s32_f32(x); });
}
LOFT_INLINE F from_bits(I a) {
  return each<F>(a, [](int32x4_t x) { return vreinterpretq_f32_s32(x); });
}
LOFT_INLINE I iset1(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {{v, v, v, v}};
}
LOFT_INLINE I iadd(I a, I b) {
  return each<I>(a, b, [](int32x4_t x, int32x4_t y) { return vaddq_s32(x, y); });
}
LOFT_INLINE I isub(I a, I b) {
  return each<I>(a, b, [](int32x4_t x, int32x4_t y) { return vsubq_s32(x, y); });
}
LOFT_INLINE I iand(I a, I b) {
  return each<I>(a, b, [](int32x4_t x, int32x4_t y) { return vandq_s32(x, y); });
}
LOFT_INLINE I ior(I a, I b) {
  return each<I>(a, b, [](int32x4_t x, int32x4_t y) { return vorrq_s32(x, y); });
}
LOFT_INLINE I ixor(I a, I b) {
  return each<I>(a, b, [](int32x4_t x, int32x4_t y) { return veorq_s32(x, y); });
}
template <int N>
LOFT_INLINE I shl(I a) {
  return each<I>(a, [](int32x4_t x) { return vshlq_n_s32(x, N); });
}
template <int N>
LOFT_INLINE I sar(I a) {
  return each<I>(a, [](int32x4_t x) { return vshrq_n_s32(x, N); });
}
LOFT_INLINE F load(const float* p) {
  return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
LOFT_INLINE void store(float* p, F a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
LOFT_INLINE F load(const int8_t* p) {
  const int8x16_t v = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_s8(vget_high_s8(v));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
LOFT_INLINE F load(const Half* p) {
  F a;
  for (int i = 0; i < 4; ++i) a.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p[4 * i].bits)));
  return a;
}
LOFT_INLINE void store(Half* p, F a) {
  for (int i = 0; i < 4; ++i) vst1_u16(&p[4 * i].bits, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
LOFT_INLINE F load(const Bf16* p) {
  F a;
  for (int i = 0; i < 4; ++i) a.v[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&p[4 * i].bits), 16));
  return a;
}
LOFT_INLINE uint16x4_t round_bf16(float32x4_t a) {
  const uint32x4_t u = vreinterpretq_u32_f32(a), high = vshrq_n_u32(u, 16);
  const uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet));
}
LOFT_INLINE void store(Bf16* p, F a) {
  for (int i = 0; i < 4; ++i) vst1_u16(&p[4 * i].bits, round_bf16(a.v[i]));
}
/// The tree of every sum: lanes l and l + 8, then l + 4, l + 2, l + 1.
LOFT_INLINE float sum_lanes(F a) {
  const float32x4_t s4 = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
  return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}
LOFT_INLINE void transpose_4(float32x4_t& a, float32x4_t& b, float32x4_t& c, float32x4_t& d) {
  const float32x4x2_t ab = vtrnq_f32(a, b), cd = vtrnq_f32(c, d);
  a = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
  b = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
  c = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
  d = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
}
/// Rows become columns, in place.
LOFT_INLINE void transpose_16(F* r) {
  F t[16];
  for (int i = 0; i < 16; i += 4) {
    for (int q = 0; q < 4; ++q) {
      float32x4_t a = r[i].v[q], b = r[i + 1].v[q], c = r[i + 2].v[q], d = r[i + 3].v[q];
      transpose_4(a, b, c, d);
      t[4 * q].v[i / 4] = a;
      t[4 * q + 1].v[i / 4] = b;
      t[4 * q + 2].v[i / 4] = c;
      t[4 * q + 3].v[i / 4] = d;
    }
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
