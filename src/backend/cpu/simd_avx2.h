// backend/cpu: sixteen floats as two AVX2 registers. Included by simd.h alone, which says what the names mean.
#pragma once

namespace loft::LOFT_SIMD_NAMESPACE {

struct F {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
LOFT_INLINE F set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LOFT_INLINE F zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LOFT_INLINE F add(F a, F b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LOFT_INLINE F sub(F a, F b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LOFT_INLINE F mul(F a, F b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LOFT_INLINE F div(F a, F b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LOFT_INLINE F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LOFT_INLINE F fnma(F a, F b, F c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
LOFT_INLINE F max(F a, F b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LOFT_INLINE F min(F a, F b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LOFT_INLINE I bits(F a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
LOFT_INLINE F from_bits(I a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
LOFT_INLINE I iset1(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
LOFT_INLINE I iadd(I a, I b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
LOFT_INLINE I isub(I a, I b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
LOFT_INLINE I iand(I a, I b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
LOFT_INLINE I ior(I a, I b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
LOFT_INLINE I ixor(I a, I b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int N>
LOFT_INLINE I shl(I a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
LOFT_INLINE I sar(I a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}
LOFT_INLINE F load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LOFT_INLINE void store(float* p, F a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
LOFT_INLINE F load(const int8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}
LOFT_INLINE F load(const Half* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
LOFT_INLINE void store(Half* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
LOFT_INLINE __m256 widen_bf16(const Bf16* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16));
}
LOFT_INLINE F load(const Bf16* p) {
  return {widen_bf16(p), widen_bf16(p + 8)};
}
LOFT_INLINE __m256i round_bf16(__m256 a) {
  const __m256i u = _mm256_castps_si256(a);
  const __m256i high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, _mm256_castps_si256(nan));
}
LOFT_INLINE void store(Bf16* p, F a) {
  const __m256i packed = _mm256_packus_epi32(round_bf16(a.lo), round_bf16(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
/// The tree of every sum: lanes l and l + 8, then l + 4, l + 2, l + 1.
LOFT_INLINE float sum_lanes(F a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
/// op on 16 lanes as one register: the eight pairs of a[j], for two j in the halves of the result.
template <class Op>
LOFT_INLINE F join_halves(F a, F b, F c, F d, Op op) {
  const F ac = op(F{a.lo, c.lo}, F{a.hi, c.hi});
  const F bd = op(F{b.lo, d.lo}, F{b.hi, d.hi});
  return op(F{_mm256_permute2f128_ps(ac.lo, bd.lo, 0x20), _mm256_permute2f128_ps(ac.hi, bd.hi, 0x20)},
            F{_mm256_permute2f128_ps(ac.lo, bd.lo, 0x31), _mm256_permute2f128_ps(ac.hi, bd.hi, 0x31)});
}
template <int kLow, int kHigh, class Op>
LOFT_INLINE F join_lanes(F a, F b, Op op) {
  return op(F{_mm256_shuffle_ps(a.lo, b.lo, kLow), _mm256_shuffle_ps(a.hi, b.hi, kLow)},
            F{_mm256_shuffle_ps(a.lo, b.lo, kHigh), _mm256_shuffle_ps(a.hi, b.hi, kHigh)});
}
/// Lane j of the result is op over the lanes of a[j], by the tree of sum_lanes.
template <class Op>
LOFT_INLINE F join_lanes_16(const F* a, Op op) {
  F e[4];
  for (int i = 0; i < 4; ++i) e[i] = join_halves(a[i], a[i + 4], a[i + 8], a[i + 12], op);
  return join_lanes<0x88, 0xdd>(join_lanes<0x44, 0xee>(e[0], e[1], op), join_lanes<0x44, 0xee>(e[2], e[3], op), op);
}
LOFT_INLINE void transpose_quarters(__m256 a, __m256 b, __m256 c, __m256 d, __m256* out) {
  const __m256 ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
  const __m256 cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
  out[0] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
  out[1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
  out[2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
  out[3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
}
/// Rows become columns, in place.
LOFT_INLINE void transpose_16(F* r) {
  __m256 u[16], w[16];
  for (int i = 0; i < 16;
       i += 4) {  // within quarters: quarter q of u[i + k] is column 4q + k of rows i..i+3, w: 8 more
    transpose_quarters(r[i].lo, r[i + 1].lo, r[i + 2].lo, r[i + 3].lo, u + i);
    transpose_quarters(r[i].hi, r[i + 1].hi, r[i + 2].hi, r[i + 3].hi, w + i);
  }
  for (int k = 0; k < 4; ++k) {
    r[k] = {_mm256_permute2f128_ps(u[k], u[4 + k], 0x20), _mm256_permute2f128_ps(u[8 + k], u[12 + k], 0x20)};
    r[4 + k] = {_mm256_permute2f128_ps(u[k], u[4 + k], 0x31), _mm256_permute2f128_ps(u[8 + k], u[12 + k], 0x31)};
    r[8 + k] = {_mm256_permute2f128_ps(w[k], w[4 + k], 0x20), _mm256_permute2f128_ps(w[8 + k], w[12 + k], 0x20)};
    r[12 + k] = {_mm256_permute2f128_ps(w[k], w[4 + k], 0x31), _mm256_permute2f128_ps(w[8 + k], w[12 + k], 0x31)};
  }
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
