// backend/cpu: weights of a checkpoint as panels of 16-bit words, a run of inputs at a time. Eight rows are transposed
// in registers, so that a lane holds one output. Codes of 2, 4 and 8 bits are cut from the transposed dwords, which
// gives pairs of inputs pair_stride apart; other widths become words before.
#include "backend/cpu/qmm_avx2.h"
#include "backend/cpu/qmm_codes_avx2.h"
#include "core/dtype.h"

namespace loft {
namespace {

/// Sixteen rows at one pitch; in a panel that sticks out of the weight the last row stands in for the missing ones.
struct Rows {
  const uint8_t* base;
  int64_t pitch, last;
  LOFT_INLINE const uint8_t* operator[](int64_t i) const { return base + (i < last ? i : last) * pitch; }
};

/// Inputs that one step makes.
constexpr int64_t step_of(int bits) {
  return bits == 2 ? 64 : bits == 4 ? 32 : 16;
}

/// kFp4Bytes for codes in the low bytes of words (the table's last entry in the others' place is cut off).
LOFT_INLINE __m256i fp4_words(__m256i codes) {
  const __m128i twice = load_16_bytes(kFp4Bytes);
  // A byte with its top bit set becomes 0: the high byte of each word.
  const __m256i low_only = _mm256_or_si256(codes, _mm256_set1_epi16(int16_t(0x8000)));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), low_only);
}

/// 16 codes of kBits in order, one a word. Each code lies within 16 bits from the byte in which it begins; a product
/// moves it to bit 8.
template <int kBits>
LOFT_INLINE __m256i sixteen_words(__m128i packed) {
  alignas(32) int8_t from[32];
  alignas(32) int16_t by[16];
  for (int i = 0; i < 16; ++i) {
    from[2 * i] = int8_t(i * kBits / 8);
    from[2 * i + 1] = int8_t(i * kBits / 8 + 1);
    by[i] = int16_t(1 << (8 - i * kBits % 8));
  }
  const __m256i windows = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(packed),
                                              _mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
  const __m256i moved = _mm256_mullo_epi16(windows, _mm256_load_si256(reinterpret_cast<const __m256i*>(by)));
  return _mm256_and_si256(_mm256_srli_epi16(moved, 8), _mm256_set1_epi16((1 << kBits) - 1));
}

/// A step of eight rows; their words go to every second 32 bytes of the panel. Whole: 16 bytes of a row may be read.
template <int kBits, bool kFp4, bool kWhole>
LOFT_INLINE void repack_eight(const Rows& rows, int64_t row, int64_t offset, int64_t readable, uint8_t* panel) {
  const auto load = [&](int64_t i) {
    return kWhole ? load_16_bytes(rows[i] + offset) : load_first_bytes(rows[i] + offset, readable);
  };
  const auto store = [&](int pair, __m256i words) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(panel + pair * 64), words);
  };
  if constexpr (kBits == 2 || kBits == 4 || kBits == 8) {
    __m256i z[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) z[i] = _mm256_set_m128i(load(row + i + 4), load(row + i));
    transpose_8x4(z);
    constexpr int kPairs = 16 / kBits;  // of a dword
    const __m256i mask = _mm256_set1_epi32(((1 << kBits) - 1) * 0x10001);
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) {
#pragma GCC unroll 8
      for (int i = 0; i < kPairs; ++i) {
        __m256i v = _mm256_and_si256(i > 0 ? _mm256_srli_epi32(z[t], i * kBits) : z[t], mask);
        if constexpr (kFp4) v = fp4_words(v);
        store(t * kPairs + i, v);
      }
    }
  } else {
    __m256i z[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) z[i] = sixteen_words<kBits>(load(row + i));
    transpose_8x8(z);
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) store(t, z[t]);
  }
}

template <int kBits, bool kFp4>
void panel_codes(const QuantWeight& w, int64_t n0, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel) {
  constexpr int64_t kStep = step_of(kBits);
  const int64_t pitch = w.k * kBits / 8;
  const Rows rows = {static_cast<const uint8_t*>(w.words) + n0 * pitch, pitch, w.n - 1 - n0};
  Asker asker(ahead, (inputs + kStep - 1) / kStep);
  for (int64_t k = 0; k < inputs; k += kStep) {
    const int64_t offset = (first + k) * kBits / 8;
    const int64_t readable = pitch - offset;
    asker.ask();
    for (int half = 0; half < 2; ++half) {
      if (readable >= 16) {
        repack_eight<kBits, kFp4, true>(rows, half * 8, offset, readable, panel + half * 32);
      } else {
        repack_eight<kBits, kFp4, false>(rows, half * 8, offset, readable, panel + half * 32);
      }
    }
    panel += kStep * kPanelOutputs * 2;
  }
}

/// Dwords of scales or biases at `offset` of eight rows; only `readable` bytes of a row may be read.
LOFT_INLINE void load_dwords(const Rows& rows, int64_t row, int64_t offset, int64_t readable, __m256i* z) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    z[i] = readable >= 16
               ? _mm256_set_m128i(load_16_bytes(rows[row + i + 4] + offset), load_16_bytes(rows[row + i] + offset))
               : _mm256_set_m128i(load_first_bytes(rows[row + i + 4] + offset, readable),
                                  load_first_bytes(rows[row + i] + offset, readable));
  }
  transpose_8x4(z);
}

/// Value `part` of a dword: of one f32, of two f16 or bf16.
LOFT_INLINE __m256 value_of(__m256i dwords, DType dtype, int part) {
  if (dtype == DType::F32) return _mm256_castsi256_ps(dwords);
  if (dtype == DType::BF16) {
    return _mm256_castsi256_ps(part == 0 ? _mm256_slli_epi32(dwords, 16)
                                         : _mm256_and_si256(dwords, _mm256_set1_epi32(int(0xffff0000u))));
  }
  const __m256i halves =
      part == 0 ? _mm256_and_si256(dwords, _mm256_set1_epi32(0xffff)) : _mm256_srli_epi32(dwords, 16);
  const __m256i packed = _mm256_packus_epi32(halves, halves);  // four of each lane, twice
  return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}

/// out[32 g + i] = value of group g of output i.
void repack_scales(const Rows& rows, DType dtype, int64_t groups, float* out) {
  const int64_t bytes = dtype == DType::F32 ? 4 : 2, a_dword = 4 / bytes;
  for (int64_t g = 0; g < groups; g += 4 * a_dword) {
    for (int half = 0; half < 2; ++half) {
      __m256i z[4];
      load_dwords(rows, half * 8, g * bytes, (groups - g) * bytes, z);
      for (int64_t i = 0; i < 4 * a_dword && g + i < groups; ++i) {
        _mm256_store_ps(out + (g + i) * 2 * kPanelOutputs + half * 8,
                        value_of(z[i / a_dword], dtype, int(i % a_dword)));
      }
    }
  }
}

void panel_affine_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const int64_t pitch = groups * (w.scale_dtype == DType::F32 ? 4 : 2);
  const Rows s = {static_cast<const uint8_t*>(w.scales) + n0 * pitch, pitch, w.n - 1 - n0};
  const Rows b = {static_cast<const uint8_t*>(w.biases) + n0 * pitch, pitch, w.n - 1 - n0};
  repack_scales(s, w.scale_dtype, groups, scales);
  repack_scales(b, w.scale_dtype, groups, scales + kPanelOutputs);
}

void panel_fp4_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const Rows rows = {static_cast<const uint8_t*>(w.scales) + n0 * groups, groups, w.n - 1 - n0};
  for (int64_t g = 0; g < groups; g += 16) {
    for (int half = 0; half < 2; ++half) {
      __m256i z[4];
      load_dwords(rows, half * 8, g, groups - g, z);
      for (int64_t i = 0; i < 16 && g + i < groups; ++i) {
        const __m256i codes =
            _mm256_and_si256(_mm256_srl_epi32(z[i / 4], _mm_cvtsi32_si128(int(i % 4 * 8))), _mm256_set1_epi32(0xff));
        const __m256 scale = w.format.kind == QuantKind::Nvfp4
                                 ? _mm256_mul_ps(eight_e4m3(codes), _mm256_set1_ps(w.global_scale))
                                 : eight_e8m0(codes);
        float* const at = scales + (g + i) * 2 * kPanelOutputs + half * 8;
        _mm256_store_ps(at, _mm256_mul_ps(scale, _mm256_set1_ps(kFp4Scale)));
        _mm256_store_ps(at + kPanelOutputs, _mm256_mul_ps(scale, _mm256_set1_ps(kFp4Bias)));
      }
    }
  }
}

}  // namespace

constexpr PanelSources kPanelSourcesAvx2 = panel_sources([]<int kBits, bool kFp4>() {
  return PanelSource{step_of(kBits), panel_codes<kBits, kFp4>, kFp4 ? panel_fp4_scales : panel_affine_scales};
});

int pair_stride(const QuantFormat& format) {
  const int bits = format.bits;
  return bits == 2 || bits == 4 || bits == 8 ? 16 / bits : 1;
}

}  // namespace loft
