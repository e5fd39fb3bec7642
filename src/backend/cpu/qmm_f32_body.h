// backend/cpu: any format against f32 activations, with the vectors of the file that includes it. Four rows of the
// weight are decoded to f32 once and meet all rows of x while they are in the cache. What enters: a range of outputs.
// What leaves: their columns of y.
//
// One order at every m: each lane sums its own k in ascending order by fma, then the lanes are added as Vec::sum does.
// The including file defines Vec (width, load, load_first, fma, sum) and Sixteen (decoded values, kept or stored).
#pragma once
#include <array>
#include <utility>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_rows.h"
#include "quant/affine.h"
#include "quant/format.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

constexpr int kWeightRows = 4;
constexpr int64_t kCodeRun = 512;  // codes unpacked at a time; a multiple of every group

LOFT_INLINE int64_t fewer(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// 16 codes of 4 bits, in order, one a byte.
LOFT_INLINE __m128i sixteen_nibbles(const uint8_t* at) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
  const __m128i low = _mm_set1_epi8(15);
  return _mm_unpacklo_epi8(_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
}

/// One row of an affine weight: product and sum each rounded, as dequantize_run does.
void decode_affine(const QuantWeight& w, int64_t row, float* out) {
  const int bits = w.format.bits, group = w.format.group;
  const uint8_t* const words = static_cast<const uint8_t*>(w.words) + row * (w.k * bits / 8);
  alignas(16) uint8_t codes[kCodeRun];
  for (int64_t k = 0; k < w.k; k += kCodeRun) {
    const int64_t count = fewer(kCodeRun, w.k - k);
    if (bits != 4 && bits != 8) unpack_codes(words, bits, k, count, codes);
    for (int64_t i = 0; i < count; i += group) {
      const int64_t g = row * (w.k / group) + (k + i) / group;
      const float scale = load_float(w.scales, w.scale_dtype, g), bias = load_float(w.biases, w.scale_dtype, g);
      for (int64_t j = i; j < i + group; j += 16) {
        const __m128i sixteen = bits == 4   ? sixteen_nibbles(words + (k + j) / 2)
                                : bits == 8 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + k + j))
                                            : _mm_load_si128(reinterpret_cast<const __m128i*>(codes + j));
        Sixteen::from_unsigned(sixteen).times(scale).plus(bias).store(out + k + j);
      }
    }
  }
}

/// One row of mxfp4 or nvfp4. The table holds 2 * E2M1, whole numbers; halving the scale is exact.
void decode_fp4(const QuantWeight& w, int64_t row, float* out) {
  const int group = w.format.group;
  const uint8_t* const words = static_cast<const uint8_t*>(w.words) + row * (w.k / 2);
  const uint8_t* const scales = static_cast<const uint8_t*>(w.scales) + row * (w.k / group);
  const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  for (int64_t k = 0; k < w.k; k += group) {
    const uint8_t code = scales[k / group];
    const float scale = w.format.kind == QuantKind::Nvfp4 ? e4m3_to_f32(code) * w.global_scale : e8m0_to_f32(code);
    for (int64_t j = k; j < k + group; j += 16) {
      Sixteen::from_signed(_mm_shuffle_epi8(twice, sixteen_nibbles(words + j / 2)))
          .times(0.5f)
          .times(scale)
          .store(out + j);
    }
  }
}

/// One row of mxfp8.
void decode_fp8(const QuantWeight& w, int64_t row, float* out) {
  const int group = w.format.group;
  const uint8_t* const words = static_cast<const uint8_t*>(w.words) + row * w.k;
  const uint8_t* const scales = static_cast<const uint8_t*>(w.scales) + row * (w.k / group);
  for (int64_t k = 0; k < w.k; k += group) {
    const float scale = e8m0_to_f32(scales[k / group]);
    for (int64_t j = k; j < k + group; j += 16) {
      Sixteen::from_e4m3(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words + j))).times(scale).store(out + j);
    }
  }
}

void decode_dense(const QuantWeight& w, int64_t row, float* out) {
  const uint8_t* const words = static_cast<const uint8_t*>(w.words) + row * w.k * 2;
  int64_t k = 0;
  for (; k + 16 <= w.k; k += 16) Sixteen::from_halves(words + k * 2, w.dense_dtype).store(out + k);
  for (; k < w.k; ++k) out[k] = load_float(words, w.dense_dtype, k);
}

/// Row `row` of w as f32 [k]: the weight itself where it is f32, else decoded into `scratch`.
const float* decoded_row(const QuantWeight& w, int64_t row, float* scratch) {
  switch (w.format.kind) {
    case QuantKind::Dense:
      if (w.dense_dtype == DType::F32) {
        return reinterpret_cast<const float*>(static_cast<const uint8_t*>(w.words) + row * w.k * 4);
      }
      decode_dense(w, row, scratch);
      break;
    case QuantKind::Affine:
      decode_affine(w, row, scratch);
      break;
    case QuantKind::Mxfp8:
      decode_fp8(w, row, scratch);
      break;
    default:
      decode_fp4(w, row, scratch);
      break;
  }
  return scratch;
}

/// kRows rows of x against four rows of w; sums [kRows][4].
template <int kRows>
void dot_rows(const float* const* w, const float* x, int64_t k, float* sums) {
  typename Vec::Type acc[kRows * kWeightRows];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kWeightRows; ++i) acc[i] = Vec::zero();
  const float *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
  int64_t at = 0;
  for (; at + Vec::kWidth <= k; at += Vec::kWidth) {
    const typename Vec::Type v0 = Vec::load(w0 + at), v1 = Vec::load(w1 + at);
    const typename Vec::Type v2 = Vec::load(w2 + at), v3 = Vec::load(w3 + at);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename Vec::Type xv = Vec::load(x + r * k + at);
      acc[r * 4 + 0] = Vec::fma(v0, xv, acc[r * 4 + 0]);
      acc[r * 4 + 1] = Vec::fma(v1, xv, acc[r * 4 + 1]);
      acc[r * 4 + 2] = Vec::fma(v2, xv, acc[r * 4 + 2]);
      acc[r * 4 + 3] = Vec::fma(v3, xv, acc[r * 4 + 3]);
    }
  }
  if (at < k) {
    const int left = int(k - at);
    const typename Vec::Type v0 = Vec::load_first(w0 + at, left), v1 = Vec::load_first(w1 + at, left);
    const typename Vec::Type v2 = Vec::load_first(w2 + at, left), v3 = Vec::load_first(w3 + at, left);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename Vec::Type xv = Vec::load_first(x + r * k + at, left);
      acc[r * 4 + 0] = Vec::fma(v0, xv, acc[r * 4 + 0]);
      acc[r * 4 + 1] = Vec::fma(v1, xv, acc[r * 4 + 1]);
      acc[r * 4 + 2] = Vec::fma(v2, xv, acc[r * 4 + 2]);
      acc[r * 4 + 3] = Vec::fma(v3, xv, acc[r * 4 + 3]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kWeightRows; ++i) sums[i] = Vec::sum(acc[i]);
}

using DotRows = void (*)(const float* const*, const float*, int64_t, float*);
template <int... rows>
constexpr std::array<DotRows, sizeof...(rows)> dot_rows_upto(std::integer_sequence<int, rows...>) {
  return {dot_rows<rows + 1>...};
}

void run_f32(const CpuQmmRange& range) {
  static constexpr auto kDotRows = dot_rows_upto(std::make_integer_sequence<int, Vec::kTileRows>());
  const QuantWeight& w = *range.weight;
  const PreparedActivations& x = *range.x;
  float* const scratch = static_cast<float*>(range.scratch);
  for (int64_t n = range.begin; n < range.end; n += kWeightRows) {
    const int64_t count = fewer(kWeightRows, range.end - n);
    const float* rows[kWeightRows];
    for (int64_t i = 0; i < kWeightRows; ++i) {
      rows[i] = i < count ? decoded_row(w, n + i, scratch + i * w.k) : rows[count - 1];
    }
    for (int64_t m = 0; m < x.m; m += Vec::kTileRows) {
      const int64_t tile = fewer(Vec::kTileRows, x.m - m);
      float sums[Vec::kTileRows * kWeightRows];
      kDotRows[tile - 1](rows, x.f32 + m * w.k, w.k, sums);
      for (int64_t r = 0; r < tile; ++r) {
        for (int64_t i = 0; i < count; ++i) store_y(*range.y, m + r, n + i, sums[r * kWeightRows + i]);
      }
    }
  }
}

ActivationKey f32_key(const QuantFormat&) {
  return {};
}

size_t f32_scratch_bytes(const QmmSpec& spec, int64_t, int64_t) {
  return size_t(spec.k) * kWeightRows * sizeof(float);
}

}  // namespace
}  // namespace loft
