// backend/cpu: sixteen floats as one AVX-512 register. Included by simd.h alone, which says what the names mean.
#pragma once

namespace loft::LOFT_SIMD_NAMESPACE {

// The maskz forms keep GCC 12 from warning about the undefined pass-through operand of the plain ones.
constexpr __mmask16 kAllLanes = 0xffff;
struct F {
  __m512 v;
};
struct I {
  __m512i v;
};
LOFT_INLINE F set1(float x) {
  return {_mm512_set1_ps(x)};
}
LOFT_INLINE F zero() {
  return {_mm512_setzero_ps()};
}
LOFT_INLINE F add(F a, F b) {
  return {_mm512_add_ps(a.v, b.v)};
}
LOFT_INLINE F sub(F a, F b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
LOFT_INLINE F mul(F a, F b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
LOFT_INLINE F div(F a, F b) {
  return {_mm512_div_ps(a.v, b.v)};
}
LOFT_INLINE F fma(F a, F b, F c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
LOFT_INLINE F fnma(F a, F b, F c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
LOFT_INLINE F max(F a, F b) {
  return {_mm512_maskz_max_ps(kAllLanes, a.v, b.v)};
}
LOFT_INLINE F min(F a, F b) {
  return {_mm512_maskz_min_ps(kAllLanes, a.v, b.v)};
}
LOFT_INLINE I bits(F a) {
  return {_mm512_castps_si512(a.v)};
}
LOFT_INLINE F from_bits(I a) {
  return {_mm512_castsi512_ps(a.v)};
}
LOFT_INLINE I iset1(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
LOFT_INLINE I iadd(I a, I b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
LOFT_INLINE I isub(I a, I b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
LOFT_INLINE I iand(I a, I b) {
  return {_mm512_and_si512(a.v, b.v)};
}
LOFT_INLINE I ior(I a, I b) {
  return {_mm512_or_si512(a.v, b.v)};
}
LOFT_INLINE I ixor(I a, I b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int N>
LOFT_INLINE I shl(I a) {
  return {_mm512_maskz_slli_epi32(kAllLanes, a.v, N)};
}
template <int N>
LOFT_INLINE I sar(I a) {
  return {_mm512_maskz_srai_epi32(kAllLanes, a.v, N)};
}
LOFT_INLINE F load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
LOFT_INLINE void store(float* p, F a) {
  _mm512_storeu_ps(p, a.v);
}
LOFT_INLINE F load(const int8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_maskz_cvtepi32_ps(kAllLanes, _mm512_maskz_cvtepi8_epi32(kAllLanes, v))};
}
LOFT_INLINE F load(const Half* p) {
  return {_mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LOFT_INLINE void store(Half* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtps_ph(kAllLanes, a.v, _MM_FROUND_TO_NEAREST_INT));
}
LOFT_INLINE F load(const Bf16* p) {
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, b), 16))};
}
LOFT_INLINE void store(Bf16* p, F a) {
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i high = _mm512_maskz_srli_epi32(kAllLanes, u, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i rounded = _mm512_maskz_srli_epi32(kAllLanes, sum, 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  const __m512i r = _mm512_mask_blend_epi32(nan, rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(kAllLanes, r));
}
/// The tree of every sum: lanes l and l + 8, then l + 4, l + 2, l + 1.
LOFT_INLINE float sum_lanes(F a) {
  const __m256 upper = _mm512_maskz_extractf32x8_ps(0xff, a.v, 1);
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
template <int kLow, int kHigh, class Op>
LOFT_INLINE F join_quarters(F a, F b, Op op) {
  return op(F{_mm512_maskz_shuffle_f32x4(kAllLanes, a.v, b.v, kLow)},
            F{_mm512_maskz_shuffle_f32x4(kAllLanes, a.v, b.v, kHigh)});
}
template <int kLow, int kHigh, class Op>
LOFT_INLINE F join_lanes(F a, F b, Op op) {
  return op(F{_mm512_maskz_shuffle_ps(kAllLanes, a.v, b.v, kLow)},
            F{_mm512_maskz_shuffle_ps(kAllLanes, a.v, b.v, kHigh)});
}
/// Lane j of the result is op over the lanes of a[j], by the tree of sum_lanes.
template <class Op>
LOFT_INLINE F join_lanes_16(const F* a, Op op) {
  F e[4];
  for (int i = 0; i < 4; ++i) {
    const F low = join_quarters<0x44, 0xee>(a[i], a[i + 4], op);
    const F high = join_quarters<0x44, 0xee>(a[i + 8], a[i + 12], op);
    e[i] = join_quarters<0x88, 0xdd>(low, high, op);
  }
  return join_lanes<0x88, 0xdd>(join_lanes<0x44, 0xee>(e[0], e[1], op), join_lanes<0x44, 0xee>(e[2], e[3], op), op);
}
/// Rows become columns, in place.
LOFT_INLINE void transpose_16(F* r) {
  __m512 u[16];
  for (int i = 0; i < 16; i += 4) {  // within quarters: quarter q of u[i + k] is column 4q + k of rows i..i+3
    const __m512 ab_low = _mm512_maskz_unpacklo_ps(kAllLanes, r[i].v, r[i + 1].v);
    const __m512 ab_high = _mm512_maskz_unpackhi_ps(kAllLanes, r[i].v, r[i + 1].v);
    const __m512 cd_low = _mm512_maskz_unpacklo_ps(kAllLanes, r[i + 2].v, r[i + 3].v);
    const __m512 cd_high = _mm512_maskz_unpackhi_ps(kAllLanes, r[i + 2].v, r[i + 3].v);
    u[i] = _mm512_maskz_shuffle_ps(kAllLanes, ab_low, cd_low, 0x44);
    u[i + 1] = _mm512_maskz_shuffle_ps(kAllLanes, ab_low, cd_low, 0xee);
    u[i + 2] = _mm512_maskz_shuffle_ps(kAllLanes, ab_high, cd_high, 0x44);
    u[i + 3] = _mm512_maskz_shuffle_ps(kAllLanes, ab_high, cd_high, 0xee);
  }
  for (int k = 0; k < 4; ++k) {  // of quarters
    const __m512 ab_low = _mm512_maskz_shuffle_f32x4(kAllLanes, u[k], u[4 + k], 0x44);
    const __m512 ab_high = _mm512_maskz_shuffle_f32x4(kAllLanes, u[k], u[4 + k], 0xee);
    const __m512 cd_low = _mm512_maskz_shuffle_f32x4(kAllLanes, u[8 + k], u[12 + k], 0x44);
    const __m512 cd_high = _mm512_maskz_shuffle_f32x4(kAllLanes, u[8 + k], u[12 + k], 0xee);
    r[k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, ab_low, cd_low, 0x88);
    r[4 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, ab_low, cd_low, 0xdd);
    r[8 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, ab_high, cd_high, 0x88);
    r[12 + k].v = _mm512_maskz_shuffle_f32x4(kAllLanes, ab_high, cd_high, 0xdd);
  }
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
