// backend/cpu: one-byte floats on AVX-512, for files compiled for it only.
#pragma once
#include <immintrin.h>

#ifndef LOFT_INLINE
#define LOFT_INLINE inline __attribute__((always_inline))
#endif

namespace loft {
namespace {

/// E4M3 codes of the low bytes: exponent and mantissa as those of an f16 2^8 times too small; 0x7f is NaN. Not as those
/// of an f32: its subnormals cost the processor some hundred cycles.
LOFT_INLINE __m512 sixteen_e4m3(__m512i codes) {
  const __m512i magnitude = _mm512_and_si512(codes, _mm512_set1_epi32(0x7f));
  const __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(codes, magnitude), 8);
  const __m512i halves = _mm512_or_si512(_mm512_slli_epi32(magnitude, 7), sign);
  const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves)), _mm512_set1_ps(0x1p8f));
  const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
  return _mm512_mask_mov_ps(value, is_nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}

/// E8M0 codes: 2^(code - 127).
LOFT_INLINE __m512 sixteen_e8m0(__m512i codes) {
  const __mmask16 is_zero = _mm512_testn_epi32_mask(codes, codes);
  return _mm512_castsi512_ps(
      _mm512_mask_mov_epi32(_mm512_slli_epi32(codes, 23), is_zero, _mm512_set1_epi32(0x00400000)));
}

}  // namespace
}  // namespace loft
