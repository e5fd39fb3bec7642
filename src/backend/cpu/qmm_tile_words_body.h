// backend/cpu: one panel of 16-bit words against up to eight rows of x, in AVX2 registers. The including file defines
// Dot::add(sum, w, x), which adds the products of two words a lane to a lane's sum.
#pragma once
#include "backend/cpu/qmm_avx2.h"
#include "backend/cpu/qmm_codes_avx2.h"

namespace loft {
namespace {

// Rows at a time: 8 sums, 2 weights, one x and one product fill 12 of 16 registers. Six would fill all, but leave two
// of the eight rows of a slice for a second pass.
constexpr int kWordRows = 4;

/// Rows [row, row + kRows) of a slice of `a_rows`.
template <int kRows>
LOFT_INLINE void word_rows(const PanelTile& a, const Ahead& ahead, int64_t row, int64_t a_rows, float* acc) {
  constexpr int64_t kPairBytes = 64;
  const int64_t pairs = a.group_inputs / 2;
  const uint8_t* w = a.codes;
  const int8_t* x = a.x + row * 4;
  Asker asker(ahead, a.groups * pairs / 8);
  for (int64_t g = 0; g < a.groups; ++g) {
    __m256i sum[kRows * 2];
#pragma GCC unroll 8
    for (int i = 0; i < kRows * 2; ++i) sum[i] = _mm256_setzero_si256();
    for (int64_t i = 0; i < pairs; ++i) {
      if (i % 8 == 0) asker.ask();
      const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
      const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        int pair;
        __builtin_memcpy(&pair, x + r * 4, 4);
        const __m256i xv = _mm256_set1_epi32(pair);
        sum[2 * r] = Dot::add(sum[2 * r], w0, xv);
        sum[2 * r + 1] = Dot::add(sum[2 * r + 1], w1, xv);
      }
      w += kPairBytes;
      x += 4 * a_rows;
    }
    const float* const scales = a.scales + g * 2 * kPanelOutputs;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256 scale = _mm256_load_ps(scales + half * 8);
      const __m256 bias = _mm256_load_ps(scales + kPanelOutputs + half * 8);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        float* const at = acc + (row + r) * kPanelOutputs + half * 8;
        const __m256 d = _mm256_set1_ps(a.d[g * a_rows + row + r]), s = _mm256_set1_ps(a.s[g * a_rows + row + r]);
        const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[2 * r + half]), scale);
        _mm256_store_ps(at, _mm256_fmadd_ps(bias, s, _mm256_fmadd_ps(product, d, _mm256_load_ps(at))));
      }
    }
  }
}

template <int kRows>
void word_tile(const PanelTile& tile, float* acc) {
  if constexpr (kRows > kWordRows) {
    const uint8_t* const middle = tile.ahead.begin + (tile.ahead.end - tile.ahead.begin) * kWordRows / kRows;
    word_rows<kWordRows>(tile, {tile.ahead.begin, middle}, 0, kRows, acc);
    word_rows<kRows - kWordRows>(tile, {middle, tile.ahead.end}, kWordRows, kRows, acc);
  } else {
    word_rows<kRows>(tile, tile.ahead, 0, kRows, acc);
  }
}

TileFunction word_tile_of(int64_t rows) {
  static constexpr TileFunction kAll[kSliceRows] = {word_tile<1>, word_tile<2>, word_tile<3>, word_tile<4>,
                                                    word_tile<5>, word_tile<6>, word_tile<7>, word_tile<8>};
  return kAll[rows - 1];
}

}  // namespace
}  // namespace loft
