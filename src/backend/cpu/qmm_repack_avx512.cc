// backend/cpu: weights of a checkpoint as panels of unsigned bytes, a run of inputs at a time. 16 rows are transposed
// in registers as dwords, so that a lane holds one output; codes of 2 and 4 bits are cut from the dwords afterwards,
// other widths become bytes before.
#include <immintrin.h>

#include "backend/cpu/fp8_avx512.h"
#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_codes_avx512.h"

namespace loft {
namespace {

LOFT_INLINE __m512i fp4_bytes(__m512i codes) {
  const __m128i twice = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kFp4Bytes));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(twice), codes);
}

/// 64 codes of one row, in order, one a byte.
template <int kBits>
struct Decoder {
  __m512i bytes, shifts, mask;
  LOFT_INLINE Decoder() {
    alignas(64) uint8_t from[64], by[64];
    for (int i = 0; i < 64; ++i) {
      from[i] = uint8_t((i / 8) * kBits + i % 8);
      by[i] = uint8_t((i % 8) * kBits);
    }
    bytes = _mm512_load_si512(from);
    shifts = _mm512_load_si512(by);
    mask = _mm512_set1_epi8(char((1 << kBits) - 1));
  }
  LOFT_INLINE __m512i operator()(__m512i packed) const {
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(bytes, packed)), mask);
  }
};

constexpr int64_t step_of(int bits) {
  return bits == 2 ? 128 : 64;
}

/// One step of a panel, kBits 2 or 4: 32 bytes of each row are eight registers of packed quads.
template <int kBits, bool kFp4>
LOFT_INLINE void cut_codes(const __m512i* z, uint8_t* panel) {
  constexpr int kPack = 8 / kBits;
  const __m512i mask = _mm512_set1_epi8((1 << kBits) - 1);
#pragma GCC unroll 8
  for (int t = 0; t < 8; ++t) {
#pragma GCC unroll 4
    for (int i = 0; i < kPack; ++i) {
      __m512i v = _mm512_and_si512(i > 0 ? _mm512_srli_epi16(z[t], i * kBits) : z[t], mask);
      if constexpr (kFp4) v = fp4_bytes(v);
      _mm512_store_si512(panel + (t * kPack + i) * 64, v);
    }
  }
}

template <int kBits, bool kFp4, bool kFull>
void repack_codes(const Rows<kFull>& rows, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel) {
  constexpr int64_t kStep = step_of(kBits), kStepBytes = kStep * kBits / 8;  // of a row
  [[maybe_unused]] const Decoder<kBits> decode;
  Asker asker(ahead, (inputs + kStep - 1) / kStep);
  for (int64_t k = 0; k < inputs; k += kStep) {
    const int64_t offset = (first + k) * kBits / 8;
    const int64_t readable = rows.pitch - offset;
    const bool is_whole = readable >= kStepBytes;
    asker.ask();
    if constexpr (kBits == 2 || kBits == 4) {
      __m512i z[8];
      is_whole ? transpose_16x8(rows, offset, z) : transpose_16x8(rows, offset, readable, z);
      cut_codes<kBits, kFp4>(z, panel);
    } else if constexpr (kBits == 8) {
      for (int64_t half = 0; half < 64; half += 32) {
        __m512i z[8];
        is_whole ? transpose_16x8(rows, offset + half, z) : transpose_16x8(rows, offset + half, readable - half, z);
#pragma GCC unroll 8
        for (int t = 0; t < 8; ++t) _mm512_store_si512(panel + half * kLanes + t * 64, z[t]);
      }
    } else {
      const __mmask64 mask = (__mmask64{1} << smaller(kStepBytes, readable)) - 1;
      __m512i z[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) z[i] = decode(_mm512_maskz_loadu_epi8(mask, rows[i] + offset));
      transpose_16x16(z);
#pragma GCC unroll 16
      for (int t = 0; t < 16; ++t) _mm512_store_si512(panel + t * 64, z[t]);
    }
    panel += kStep * kLanes;
  }
}

template <bool kFull>
LOFT_INLINE Rows<kFull> rows_at(const QuantWeight& w, const void* data, int64_t pitch, int64_t n0) {
  return {static_cast<const uint8_t*>(data) + n0 * pitch, pitch, w.n - 1 - n0};
}

template <int kBits, bool kFp4>
void panel_codes(const QuantWeight& w, int64_t n0, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel) {
  const int64_t pitch = w.k * kBits / 8;
  if (n0 + kLanes <= w.n) {
    repack_codes<kBits, kFp4>(rows_at<true>(w, w.words, pitch, n0), first, inputs, ahead, panel);
  } else {
    repack_codes<kBits, kFp4>(rows_at<false>(w, w.words, pitch, n0), first, inputs, ahead, panel);
  }
}

template <bool kFull>
void affine_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const int64_t pitch = groups * (w.scale_dtype == DType::F32 ? 4 : 2);
  repack_scales(rows_at<kFull>(w, w.scales, pitch, n0), w.scale_dtype, groups, scales);
  repack_scales(rows_at<kFull>(w, w.biases, pitch, n0), w.scale_dtype, groups, scales + kLanes);
}
void panel_affine_scales(const QuantWeight& w, int64_t n0, float* scales) {
  n0 + kLanes <= w.n ? affine_scales<true>(w, n0, scales) : affine_scales<false>(w, n0, scales);
}

template <bool kFull>
void fp4_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const Rows<kFull> rows = rows_at<kFull>(w, w.scales, groups, n0);
  for (int64_t g = 0; g < groups; g += 32) {
    __m512i z[8];
    transpose_16x8(rows, g, groups - g, z);
    for (int64_t i = 0; i < smaller(32, groups - g); ++i) {
      const __m512i bytes =
          _mm512_and_si512(_mm512_srlv_epi32(z[i / 4], _mm512_set1_epi32(int(i % 4 * 8))), _mm512_set1_epi32(0xff));
      const __m512 scale = w.format.kind == QuantKind::Nvfp4
                               ? _mm512_mul_ps(sixteen_e4m3(bytes), _mm512_set1_ps(w.global_scale))
                               : sixteen_e8m0(bytes);
      float* const at = scales + (g + i) * 2 * kLanes;
      _mm512_store_ps(at, _mm512_mul_ps(scale, _mm512_set1_ps(kFp4Scale)));
      _mm512_store_ps(at + kLanes, _mm512_mul_ps(scale, _mm512_set1_ps(kFp4Bias)));
    }
  }
}
void panel_fp4_scales(const QuantWeight& w, int64_t n0, float* scales) {
  n0 + kLanes <= w.n ? fp4_scales<true>(w, n0, scales) : fp4_scales<false>(w, n0, scales);
}

}  // namespace

constexpr PanelSources kPanelSourcesAvx512 = panel_sources([]<int kBits, bool kFp4>() {
  return PanelSource{step_of(kBits), panel_codes<kBits, kFp4>, kFp4 ? panel_fp4_scales : panel_affine_scales};
});

}  // namespace loft
