// backend/cpu: sixteen floats as one value, for the row kernels. Included only by files that are built once for each
// instruction set: all names live in a namespace of that set, so the linker can never mix them up. Lane order and the
// trees of sums are the same in every build; with FMA (AVX2, AVX-512) results are equal to the bit.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "backend/cpu/row_kernels.h"

#ifndef LOFT_SIMD_NAMESPACE
#error "define LOFT_SIMD_NAMESPACE before including backend/cpu/simd.h"
#endif
#define LOFT_INLINE static inline __attribute__((always_inline))

namespace loft::LOFT_SIMD_NAMESPACE {

#if defined(__AVX512F__)
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
LOFT_INLINE __m512 sum_quarters(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAllLanes, a, b, 0x44),
                                  _mm512_maskz_shuffle_f32x4(kAllLanes, a, b, 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAllLanes, c, d, 0x44),
                                  _mm512_maskz_shuffle_f32x4(kAllLanes, c, d, 0xee));
  return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAllLanes, ab, cd, 0x88),
                       _mm512_maskz_shuffle_f32x4(kAllLanes, ab, cd, 0xdd));
}
LOFT_INLINE __m512 sum_pairs(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_maskz_shuffle_ps(kAllLanes, a, b, 0x44), _mm512_maskz_shuffle_ps(kAllLanes, a, b, 0xee));
}
/// Lane j of the result is sum_lanes(a[j]), by the same tree.
LOFT_INLINE F sum_lanes_16(const F* a) {
  const __m512 e0 = sum_quarters(a[0].v, a[4].v, a[8].v, a[12].v);
  const __m512 e1 = sum_quarters(a[1].v, a[5].v, a[9].v, a[13].v);
  const __m512 e2 = sum_quarters(a[2].v, a[6].v, a[10].v, a[14].v);
  const __m512 e3 = sum_quarters(a[3].v, a[7].v, a[11].v, a[15].v);
  const __m512 x = sum_pairs(e0, e1);
  const __m512 y = sum_pairs(e2, e3);
  return {
      _mm512_add_ps(_mm512_maskz_shuffle_ps(kAllLanes, x, y, 0x88), _mm512_maskz_shuffle_ps(kAllLanes, x, y, 0xdd))};
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
LOFT_INLINE float max_lanes(F a) {
  const __m256 upper = _mm512_maskz_extractf32x8_ps(0xff, a.v, 1);
  const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper);
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

#elif defined(__AVX2__)
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
LOFT_INLINE __m256 sum_halves(F a, F b) {
  const __m256 a8 = _mm256_add_ps(a.lo, a.hi);
  const __m256 b8 = _mm256_add_ps(b.lo, b.hi);
  return _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
}
LOFT_INLINE __m256 sum_pairs(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}
LOFT_INLINE __m256 sum_lanes_8(const F* a) {
  const __m256 x = sum_pairs(sum_halves(a[0], a[4]), sum_halves(a[1], a[5]));
  const __m256 y = sum_pairs(sum_halves(a[2], a[6]), sum_halves(a[3], a[7]));
  return _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd));
}
/// Lane j of the result is sum_lanes(a[j]), by the same tree.
LOFT_INLINE F sum_lanes_16(const F* a) {
  return {sum_lanes_8(a), sum_lanes_8(a + 8)};
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
LOFT_INLINE float max_lanes(F a) {
  const __m256 m8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

#else
// Any machine: four vectors of four through the compiler's vector types.
typedef float V4 __attribute__((vector_size(16)));
typedef int32_t I4 __attribute__((vector_size(16)));
struct F {
  V4 v[4];
};
struct I {
  I4 v[4];
};
template <class T, class U, class Op>
LOFT_INLINE T each(const U& a, const U& b, Op op) {
  return {{op(a.v[0], b.v[0]), op(a.v[1], b.v[1]), op(a.v[2], b.v[2]), op(a.v[3], b.v[3])}};
}
LOFT_INLINE F set1(float x) {
  const V4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
LOFT_INLINE F zero() {
  return set1(0.0f);
}
LOFT_INLINE F add(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x + y; });
}
LOFT_INLINE F sub(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x - y; });
}
LOFT_INLINE F mul(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x * y; });
}
LOFT_INLINE F div(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x / y; });
}
LOFT_INLINE F fma(F a, F b, F c) {
  return add(mul(a, b), c);
}
LOFT_INLINE F fnma(F a, F b, F c) {
  return sub(c, mul(a, b));
}
// As x86's: the second operand where either is NaN.
LOFT_INLINE F max(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x > y ? x : y; });
}
LOFT_INLINE F min(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x < y ? x : y; });
}
LOFT_INLINE I bits(F a) {
  return {{I4(a.v[0]), I4(a.v[1]), I4(a.v[2]), I4(a.v[3])}};
}
LOFT_INLINE F from_bits(I a) {
  return {{V4(a.v[0]), V4(a.v[1]), V4(a.v[2]), V4(a.v[3])}};
}
LOFT_INLINE I iset1(int32_t x) {
  const I4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
LOFT_INLINE I iadd(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x + y; });
}
LOFT_INLINE I isub(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x - y; });
}
LOFT_INLINE I iand(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x & y; });
}
LOFT_INLINE I ior(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x | y; });
}
LOFT_INLINE I ixor(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x ^ y; });
}
template <int N>
LOFT_INLINE I shl(I a) {
  return {{a.v[0] << N, a.v[1] << N, a.v[2] << N, a.v[3] << N}};
}
template <int N>
LOFT_INLINE I sar(I a) {
  return {{a.v[0] >> N, a.v[1] >> N, a.v[2] >> N, a.v[3] >> N}};
}
LOFT_INLINE F load(const float* p) {
  F a;
  std::memcpy(&a, p, sizeof a);
  return a;
}
LOFT_INLINE void store(float* p, F a) {
  std::memcpy(p, &a, sizeof a);
}
LOFT_INLINE F load(const Half* p) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = f16_to_f32(p[i].bits);
  return load(x);
}
LOFT_INLINE void store(Half* p, F a) {
  float x[16];
  store(x, a);
  for (int i = 0; i < 16; ++i) p[i].bits = f32_to_f16(x[i]);
}
LOFT_INLINE F load(const Bf16* p) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = bf16_to_f32(p[i].bits);
  return load(x);
}
LOFT_INLINE void store(Bf16* p, F a) {
  float x[16];
  store(x, a);
  for (int i = 0; i < 16; ++i) p[i].bits = f32_to_bf16(x[i]);
}
/// The tree of every sum: lanes l and l + 8, then l + 4, l + 2, l + 1.
LOFT_INLINE float sum_lanes(F a) {
  const V4 s4 = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}
/// Lane j of the result is sum_lanes(a[j]), by the same tree.
LOFT_INLINE F sum_lanes_16(const F* a) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = sum_lanes(a[i]);
  return load(x);
}
/// Rows become columns, in place.
LOFT_INLINE void transpose_16(F* r) {
  float x[16][16], y[16][16];
  for (int i = 0; i < 16; ++i) store(x[i], r[i]);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) y[j][i] = x[i][j];
  }
  for (int i = 0; i < 16; ++i) r[i] = load(y[i]);
}
LOFT_INLINE float max_lanes(F a) {
  float x[16];
  store(x, a);
  float m = x[0];
  for (int i = 1; i < 16; ++i) m = m > x[i] ? m : x[i];
  return m;
}
#endif

// Vectors a row of a register tile of four rows may hold: 32 registers of 16 lanes, or 16 of eight (two a vector).
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 1;
#endif

/// The first n of 16 elements, zeros above.
template <class T>
LOFT_INLINE F load_part(const T* p, int64_t n) {
  T part[16] = {};
  std::memcpy(part, p, size_t(n) * sizeof(T));
  return load(part);
}
template <class T>
LOFT_INLINE void store_part(T* p, F a, int64_t n) {
  T part[16];
  store(part, a);
  std::memcpy(p, part, size_t(n) * sizeof(T));
}

constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
constexpr float kLog2E = 1.44269504088896341f;
// ln 2 in two parts; the first has 9 trailing zero bits, so that n * kLn2High is exact for |n| < 2^9.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

/// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2, Taylor terms up to r^7; relative to e^r the rest is below 2^-27.
LOFT_INLINE F exp_tail(F r) {
  F p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  return fma(p, r, set1(0.5f));
}

struct Reduced {
  F r;  // x - n ln2
  I n;
};
LOFT_INLINE Reduced reduce_exp(F x) {
  const F shifted = add(mul(x, set1(kLog2E)), set1(kRoundMagic));
  const F n = sub(shifted, set1(kRoundMagic));
  const F r = fnma(n, set1(kLn2Low), fnma(n, set1(kLn2High), x));
  return {r, isub(bits(shifted), bits(set1(kRoundMagic)))};
}
LOFT_INLINE F power_of_two(I n) {
  return from_bits(shl<23>(iadd(n, iset1(127))));
}

/// e^x within 2 ulp, subnormal results included; overflow gives infinity, NaN stays.
LOFT_INLINE F exp(F x) {
  const Reduced a = reduce_exp(min(set1(89.0f), max(set1(-104.5f), x)));
  const F p = add(fma(mul(a.r, a.r), exp_tail(a.r), a.r), set1(1.0f));
  // In two factors: 2^n alone leaves the range of normal numbers at both ends.
  const I half = sar<1>(a.n);
  return mul(mul(p, power_of_two(half)), power_of_two(isub(a.n, half)));
}

/// e^x for x <= 0 (or NaN) within 2 ulp; results below the normal numbers become 0.
LOFT_INLINE F exp_not_positive(F x) {
  const Reduced a = reduce_exp(max(set1(-88.0f), x));  // n = -127 at the clamp, and its power of two is 0
  const F p = add(fma(mul(a.r, a.r), exp_tail(a.r), a.r), set1(1.0f));
  return mul(p, power_of_two(a.n));
}

/// tanh within 2.4 ulp: t / (t + 2) with t = e^(2|x|) - 1 formed without cancellation.
LOFT_INLINE F tanh(F x) {
  const I sign = iand(bits(x), iset1(int32_t(0x80000000u)));
  const F magnitude = from_bits(iand(bits(x), iset1(0x7fffffff)));
  const F twice = min(set1(20.0f), add(magnitude, magnitude));  // tanh(10) rounds to 1
  const Reduced a = reduce_exp(twice);
  const F p = fma(mul(a.r, a.r), exp_tail(a.r), a.r);  // e^r - 1
  const F scale = power_of_two(a.n);
  const F t = fma(p, scale, sub(scale, set1(1.0f)));
  return from_bits(ior(bits(div(t, add(t, set1(2.0f)))), sign));
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
