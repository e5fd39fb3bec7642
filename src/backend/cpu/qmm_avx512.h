// backend/cpu: what the AVX-512 kernels of the quantized product share: transposes in registers, scales as f32, stores.
// Included by files that are compiled for AVX-512 only, so everything here stays local to the file that includes it.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "core/tensor.h"

#ifndef LOFT_INLINE
#define LOFT_INLINE inline __attribute__((always_inline))
#endif

namespace loft {
namespace {

constexpr int64_t kLanes = 16;

LOFT_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// 16 rows at one pitch; in a panel that sticks out of the weight the last row stands in for the missing ones.
template <bool kFull>
struct Rows {
  const uint8_t* base;
  int64_t pitch;
  int64_t last;
  LOFT_INLINE const uint8_t* operator[](int64_t i) const { return base + (kFull || i <= last ? i : last) * pitch; }
};

/// 4 x 4 dwords in every 128-bit lane.
LOFT_INLINE void transpose_quads(__m512i* z) {
  const __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
  const __m512i c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
  z[0] = _mm512_unpacklo_epi64(a, c);
  z[1] = _mm512_unpackhi_epi64(a, c);
  z[2] = _mm512_unpacklo_epi64(b, d);
  z[3] = _mm512_unpackhi_epi64(b, d);
}

/// Rows i and i + 4 in one register, for rows 0..3 and 8..11 (see transpose_16x8), become one register a dword.
LOFT_INLINE void transpose_pairs(__m512i* z, __m512i* out) {
  transpose_quads(z);
  transpose_quads(z + 4);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    out[t] = _mm512_shuffle_i64x2(z[t], z[t + 4], 0x88);
    out[t + 4] = _mm512_shuffle_i64x2(z[t], z[t + 4], 0xdd);
  }
}

/// 8 dwords of 16 rows, from `offset`: out[t] lane i = dword t of row i.
template <bool kFull>
LOFT_INLINE void transpose_16x8(const Rows<kFull>& rows, int64_t offset, __m512i* out) {
  __m512i z[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int row = i < 4 ? i : i + 4;  // 0..3 over 4..7, 8..11 over 12..15
    const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[row] + offset));
    const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[row + 4] + offset));
    z[i] = _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
  }
  transpose_pairs(z, out);
}

/// The same where only `readable` bytes of a row may be read; zeros stand for the others.
template <bool kFull>
LOFT_INLINE void transpose_16x8(const Rows<kFull>& rows, int64_t offset, int64_t readable, __m512i* out) {
  const __mmask32 mask = readable >= 32 ? ~__mmask32{0} : readable <= 0 ? 0 : (__mmask32{1} << readable) - 1;
  __m512i z[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int row = i < 4 ? i : i + 4;
    const __m256i lo = _mm256_maskz_loadu_epi8(mask, rows[row] + offset);
    const __m256i hi = _mm256_maskz_loadu_epi8(mask, rows[row + 4] + offset);
    z[i] = _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
  }
  transpose_pairs(z, out);
}

/// 16 registers, one a row, become 16 registers, one a dword.
LOFT_INLINE void transpose_16x16(__m512i* z) {
#pragma GCC unroll 4
  for (int quad = 0; quad < 4; ++quad) transpose_quads(z + 4 * quad);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    const __m512i a = _mm512_shuffle_i64x2(z[t], z[4 + t], 0x88), b = _mm512_shuffle_i64x2(z[t], z[4 + t], 0xdd);
    const __m512i c = _mm512_shuffle_i64x2(z[8 + t], z[12 + t], 0x88),
                  d = _mm512_shuffle_i64x2(z[8 + t], z[12 + t], 0xdd);
    z[t] = _mm512_shuffle_i64x2(a, c, 0x88);
    z[4 + t] = _mm512_shuffle_i64x2(b, d, 0x88);
    z[8 + t] = _mm512_shuffle_i64x2(a, c, 0xdd);
    z[12 + t] = _mm512_shuffle_i64x2(b, d, 0xdd);
  }
}

LOFT_INLINE __m512 half_to_float(__m512i low_halves) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low_halves));
}

/// Scales or biases of 16 rows as f32: out[32 g + i] = value of group g of row i (scales and biases alternate).
template <bool kFull>
LOFT_INLINE void repack_scales(const Rows<kFull>& rows, DType dtype, int64_t groups, float* out) {
  const int64_t bytes = dtype == DType::F32 ? 4 : 2;
  const int64_t step = 32 / bytes;
  for (int64_t g = 0; g < groups; g += step) {
    const int64_t readable = smaller(32, (groups - g) * bytes);
    __m512i z[8];
    transpose_16x8(rows, g * bytes, readable, z);
    const int64_t count = smaller(step, groups - g);
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) {
      float* const at = out + (g + t * (bytes == 4 ? 1 : 2)) * 2 * kLanes;
      if (dtype == DType::F32) {
        if (t < count) _mm512_storeu_ps(at, _mm512_castsi512_ps(z[t]));
        continue;
      }
      const bool is_bf16 = dtype == DType::BF16;
      const __m512 even = is_bf16 ? _mm512_castsi512_ps(_mm512_slli_epi32(z[t], 16)) : half_to_float(z[t]);
      const __m512 odd = is_bf16 ? _mm512_castsi512_ps(_mm512_and_si512(z[t], _mm512_set1_epi32(int(0xffff0000u))))
                                 : half_to_float(_mm512_srli_epi32(z[t], 16));
      if (2 * t < count) _mm512_storeu_ps(at, even);
      if (2 * t + 1 < count) _mm512_storeu_ps(at + 2 * kLanes, odd);
    }
  }
}

/// Rounds 16 sums once to y's type; columns from n0, `count` of them.
[[maybe_unused]] LOFT_INLINE void store_columns(const Tensor& y, int64_t row, int64_t n0, int64_t count,
                                                const float* sums) {
  const __m512 v = _mm512_load_ps(sums);
  const __mmask16 mask = __mmask16((1u << count) - 1u);
  const int64_t at = row * y.stride[0] + n0;
  if (y.dtype == DType::F32) {
    _mm512_mask_storeu_ps(static_cast<float*>(y.data) + at, mask, v);
    return;
  }
  __m256i halves;
  if (y.dtype == DType::F16) {
    halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    halves = _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet));
  }
  _mm256_mask_storeu_epi16(static_cast<uint16_t*>(y.data) + at, mask, halves);
}

}  // namespace
}  // namespace loft
