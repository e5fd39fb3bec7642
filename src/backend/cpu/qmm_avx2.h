// backend/cpu: what the AVX2 files of the fixed-point product share. Included by files that are compiled for AVX2 only,
// so everything here stays local to the file that includes it.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#ifndef LOFT_INLINE
#define LOFT_INLINE inline __attribute__((always_inline))
#endif

namespace loft {
namespace {

LOFT_INLINE __m128i load_16_bytes(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/// 16 bytes of which `readable` may be read; zeros stand for the others.
LOFT_INLINE __m128i load_first_bytes(const uint8_t* at, int64_t readable) {
  alignas(16) uint8_t bytes[16] = {};
  if (readable > 0) std::memcpy(bytes, at, size_t(readable < 16 ? readable : 16));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}

/// Eight E4M3 codes of the low bytes: exponent and mantissa as those of an f16 2^8 times too small; 0x7f is NaN. Not as
/// those of an f32: its subnormals cost the processor some hundred cycles.
LOFT_INLINE __m256 eight_e4m3(__m256i codes) {
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi32(0x7f));
  const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(codes, magnitude), 8);
  const __m256i words = _mm256_or_si256(_mm256_slli_epi32(magnitude, 7), sign);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
  const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)), _mm256_set1_ps(0x1p8f));
  const __m256 is_nan = _mm256_castsi256_ps(_mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f)));
  return _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), is_nan);
}

/// Eight E8M0 codes: 2^(code - 127).
LOFT_INLINE __m256 eight_e8m0(__m256i codes) {
  const __m256i is_zero = _mm256_cmpeq_epi32(codes, _mm256_setzero_si256());
  return _mm256_castsi256_ps(_mm256_blendv_epi8(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x00400000), is_zero));
}

/// Four dwords of one row, `stride` bytes apart.
LOFT_INLINE void store_dwords(int8_t* out, int64_t stride, __m128i dwords) {
  if (stride == 4) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), dwords);
    return;
  }
  const int v[4] = {_mm_cvtsi128_si32(dwords), _mm_extract_epi32(dwords, 1), _mm_extract_epi32(dwords, 2),
                    _mm_extract_epi32(dwords, 3)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) __builtin_memcpy(out + i * stride, &v[i], 4);
}

/// z[i] holds dwords of row i (low lane) and of row i + 4 (high lane); afterwards z[t] lane i = dword t of row i.
LOFT_INLINE void transpose_8x4(__m256i* z) {
  const __m256i a = _mm256_unpacklo_epi32(z[0], z[1]), b = _mm256_unpackhi_epi32(z[0], z[1]);
  const __m256i c = _mm256_unpacklo_epi32(z[2], z[3]), d = _mm256_unpackhi_epi32(z[2], z[3]);
  z[0] = _mm256_unpacklo_epi64(a, c);
  z[1] = _mm256_unpackhi_epi64(a, c);
  z[2] = _mm256_unpacklo_epi64(b, d);
  z[3] = _mm256_unpackhi_epi64(b, d);
}

/// Dwords of rows 0..7, one register a row, become one register a dword.
LOFT_INLINE void transpose_8x8(__m256i* r) {
  __m256i lo[4], hi[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    lo[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    hi[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
  transpose_8x4(lo);
  transpose_8x4(hi);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    r[t] = lo[t];
    r[t + 4] = hi[t];
  }
}

}  // namespace
}  // namespace loft
