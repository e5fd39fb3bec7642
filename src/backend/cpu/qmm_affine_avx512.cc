// backend/cpu: affine weights of 2 to 8 bits on AVX-512 VNNI, read where they lie in the checkpoint, with 16-bit
// fixed-point activations (A16). What enters: a range of outputs. What leaves: their columns of y.
//
// Read this first. 16 outputs are the 16 lanes of a register. Their rows are transposed in registers to a panel (four
// codes of one output a lane), the panel meets the activations by vpdpbusd, four inputs a lane at a time, and each
// group of inputs ends with the same two steps in the same order, whatever m is:
//     acc = fma(float(sum of code * q) * scale, d, acc);   acc = fma(bias, s, acc)
// The integer sum is exact, so one row of x has the same bytes in every slice, chunk and thread.
#include <immintrin.h>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_rows.h"

namespace loft {
namespace {

constexpr int64_t kBlock = 32;               // inputs
constexpr int64_t kChunkBlocks = 16;         // blocks repacked at a time for one slice: 4 KiB of 4-bit codes, within L1
constexpr int64_t kPanelsBytes = 256 << 10;  // panels of all k that one pass over the slices uses: a quarter of L2
constexpr int64_t kMaxPanels = 4;

/// Bits of a code in the panel: 2 and 4 stay packed, the others become bytes.
constexpr int panel_bits(int bits) {
  return bits == 2 || bits == 4 ? bits : 8;
}
constexpr int64_t block_bytes(int bits) {
  return kLanes * kBlock * panel_bits(bits) / 8;
}
/// Blocks that one step of the repacking makes; a panel's end is padded to it.
constexpr int64_t step_blocks(int bits) {
  return bits == 2 ? 4 : 2;
}

/// 64 codes of one row, in order, one a byte. For 8 bits the bytes are the codes.
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
    if constexpr (kBits == 8) return packed;
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(bytes, packed)), mask);
  }
};

/// Fetches the next panel's bytes into L2 in the order in which they lie, as far as this panel has been read.
LOFT_INLINE void prefetch_lines(const uint8_t* at, int64_t lines) {
  for (int64_t i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(at + i * 64), _MM_HINT_T1);
}

/// Blocks [first, first + count) of 16 rows into the panel; reads nothing past `row_bytes` of a row.
template <int kBits, bool kFull>
void repack(const Rows<kFull>& rows, int64_t row_bytes, int64_t first, int64_t count, uint8_t* panel) {
  constexpr int64_t kStep = step_blocks(kBits);
  constexpr int64_t kStepBytes = kStep * kBlock * kBits / 8;  // of a row
  const uint8_t* const next = rows.base + kLanes * rows.pitch;
  const Decoder<kBits> decode;
  for (int64_t b = 0; b < count; b += kStep) {
    const int64_t offset = (first + b) * (kBlock * kBits / 8);
    const int64_t readable = smaller(kStepBytes, row_bytes - offset);
    prefetch_lines(next + offset * kLanes, kStepBytes / 4);
    if constexpr (panel_bits(kBits) < 8) {
      __m512i z[8];
      transpose_16x8(rows, offset, readable >= 32 ? ~__mmask32{0} : (__mmask32{1} << readable) - 1, z);
#pragma GCC unroll 8
      for (int t = 0; t < 8; ++t) _mm512_store_si512(panel + t * 64, z[t]);
      panel += 512;
    } else {
      const __mmask64 mask = readable >= 64 ? ~__mmask64{0} : (__mmask64{1} << readable) - 1;
      __m512i z[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) z[i] = decode(_mm512_maskz_loadu_epi8(mask, rows[i] + offset));
      transpose_16x16(z);
#pragma GCC unroll 16
      for (int t = 0; t < 16; ++t) _mm512_store_si512(panel + t * 64, z[t]);
      panel += 1024;
    }
  }
}

/// Groups of a panel against one slice of activations.
struct DotArgs {
  const uint8_t* panel;  // whole groups from the first of the call
  const float* scales;   // [groups][scale, bias][16]
  const int8_t* codes;   // the slice's, from the first block of the call
  const float* d;        // [groups][rows]
  const float* s;
  int64_t groups;
  int64_t group_blocks;
};

/// acc[r] += the groups, for the kRows rows of the slice. One register of weights meets all rows while it is live.
template <int kPanelBits, int kRows>
void dot(const DotArgs& a, float* acc) {
  constexpr int kChains = kRows <= 2 ? 2 : 1;  // vpdpbusd takes 4 cycles: four sums must be under way
  constexpr int kPack = 8 / kPanelBits;        // quads in a register of packed codes
  const __m512i mask = _mm512_set1_epi8(char((1 << kPanelBits) - 1));
  __m512 f[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) f[r] = _mm512_loadu_ps(acc + r * kLanes);
  const uint8_t* w = a.panel;
  const int8_t* q = a.codes;
  for (int64_t g = 0; g < a.groups; ++g) {
    __m512i hi[kRows * kChains], lo[kRows * kChains];
#pragma GCC unroll 8
    for (int i = 0; i < kRows * kChains; ++i) hi[i] = lo[i] = _mm512_setzero_si512();
    for (int64_t b = 0; b < a.group_blocks; ++b) {
#pragma GCC unroll 8
      for (int quad = 0; quad < 8; ++quad) {
        __m512i v = _mm512_load_si512(w + (quad / kPack) * 64);
        if constexpr (kPack > 1) {
          if (quad % kPack > 0) v = _mm512_srli_epi16(v, (quad % kPack) * kPanelBits);
          v = _mm512_and_si512(v, mask);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const int chain = r * kChains + quad % kChains;
          int qh, ql;
          __builtin_memcpy(&qh, q + (quad * kRows + r) * 4, 4);
          __builtin_memcpy(&ql, q + (quad * kRows + r) * 4 + 32 * kRows, 4);
          hi[chain] = _mm512_dpbusd_epi32(hi[chain], v, _mm512_set1_epi32(qh));
          lo[chain] = _mm512_dpbusd_epi32(lo[chain], v, _mm512_set1_epi32(ql));
        }
      }
      w += kLanes * kBlock * kPanelBits / 8;
      q += 64 * kRows;
    }
    const __m512 scale = _mm512_load_ps(a.scales + g * 2 * kLanes),
                 bias = _mm512_load_ps(a.scales + (g * 2 + 1) * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m512i h = hi[r * kChains], l = lo[r * kChains];
      if constexpr (kChains == 2) {
        h = _mm512_add_epi32(h, hi[r * 2 + 1]);
        l = _mm512_add_epi32(l, lo[r * 2 + 1]);
      }
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(h, 8), l));
      f[r] = _mm512_fmadd_ps(_mm512_mul_ps(sum, scale), _mm512_set1_ps(a.d[g * kRows + r]), f[r]);
      f[r] = _mm512_fmadd_ps(bias, _mm512_set1_ps(a.s[g * kRows + r]), f[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(acc + r * kLanes, f[r]);
}

using Dot = void (*)(const DotArgs&, float*);
template <int kPanelBits>
constexpr Dot kDots[kSliceRows] = {dot<kPanelBits, 1>, dot<kPanelBits, 2>, dot<kPanelBits, 3>, dot<kPanelBits, 4>,
                                   dot<kPanelBits, 5>, dot<kPanelBits, 6>, dot<kPanelBits, 7>, dot<kPanelBits, 8>};

/// Where a thread keeps its panels: codes of `codes_bytes`, then scales and biases of all groups.
struct PanelSizes {
  int64_t codes_bytes, panel_bytes, panels;
};
template <int kBits>
PanelSizes panel_sizes(int64_t k, int64_t group, int64_t m) {
  constexpr int64_t kStep = step_blocks(kBits);
  const int64_t blocks = (k / kBlock + kStep - 1) / kStep * kStep;
  const bool is_one_slice = m <= kSliceRows;
  const int64_t codes = (is_one_slice ? smaller(blocks, kChunkBlocks) : blocks) * block_bytes(kBits);
  const int64_t panel = codes + k / group * 2 * kLanes * int64_t{sizeof(float)};
  int64_t panels = is_one_slice ? 1 : smaller(kMaxPanels, kPanelsBytes / panel);
  if (panels < 1) panels = 1;
  return {codes, panel, panels};
}

template <int kBits, bool kFull>
void repack_panel_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const int64_t groups = w.k / w.format.group;
  const int64_t pitch = groups * (w.scale_dtype == DType::F32 ? 4 : 2);
  const Rows<kFull> s = {static_cast<const uint8_t*>(w.scales) + n0 * pitch, pitch, w.n - 1 - n0};
  const Rows<kFull> b = {static_cast<const uint8_t*>(w.biases) + n0 * pitch, pitch, w.n - 1 - n0};
  repack_scales(s, w.scale_dtype, groups, scales);
  repack_scales(b, w.scale_dtype, groups, scales + kLanes);
}

template <int kBits, bool kFull>
LOFT_INLINE Rows<kFull> panel_rows(const QuantWeight& w, int64_t n0) {
  const int64_t pitch = w.k * kBits / 8;
  return {static_cast<const uint8_t*>(w.words) + n0 * pitch, pitch, w.n - 1 - n0};
}

/// At most one slice of rows: a chunk of the panel at a time, used while it is in L1.
template <int kBits, bool kFull>
void run_one_slice(const CpuQmmRange& range, int64_t n0, uint8_t* codes, float* scales) {
  const QuantWeight& w = *range.weight;
  const A16Slice slice = a16_slice(*range.x, 0);
  const int64_t blocks = w.k / kBlock, group_blocks = w.format.group / kBlock;
  const Rows<kFull> rows = panel_rows<kBits, kFull>(w, n0);
  alignas(64) float acc[kSliceRows * kLanes] = {};
  repack_panel_scales<kBits, kFull>(w, n0, scales);
  for (int64_t b = 0; b < blocks; b += kChunkBlocks) {
    const int64_t count = smaller(kChunkBlocks, blocks - b);
    const int64_t g = b / group_blocks;
    repack<kBits>(rows, rows.pitch, b, count, codes);
    kDots<panel_bits(kBits)>[slice.rows - 1]({.panel = codes,
                                              .scales = scales + g * 2 * kLanes,
                                              .codes = slice.codes + b * 64 * slice.rows,
                                              .d = slice.d + g * slice.rows,
                                              .s = slice.s + g * slice.rows,
                                              .groups = count / group_blocks,
                                              .group_blocks = group_blocks},
                                             acc);
  }
  for (int64_t r = 0; r < slice.rows; ++r) {
    store_columns(*range.y, r, n0, smaller(kLanes, w.n - n0), acc + r * kLanes);
  }
}

/// Many slices: up to kMaxPanels panels of all k are made once, then each slice of x passes over them.
template <int kBits>
void run_many_slices(const CpuQmmRange& range, int64_t n0, int64_t panels, const PanelSizes& sizes) {
  const QuantWeight& w = *range.weight;
  uint8_t* const scratch = static_cast<uint8_t*>(range.scratch);
  for (int64_t p = 0; p < panels; ++p) {
    uint8_t* const codes = scratch + p * sizes.panel_bytes;
    float* const scales = reinterpret_cast<float*>(codes + sizes.codes_bytes);
    const int64_t n = n0 + p * kLanes;
    if (n + kLanes <= w.n) {
      repack_panel_scales<kBits, true>(w, n, scales);
      repack<kBits>(panel_rows<kBits, true>(w, n), w.k * kBits / 8, 0, w.k / kBlock, codes);
    } else {
      repack_panel_scales<kBits, false>(w, n, scales);
      repack<kBits>(panel_rows<kBits, false>(w, n), w.k * kBits / 8, 0, w.k / kBlock, codes);
    }
  }
  for (int64_t i = 0; i < a16_slices(range.x->m); ++i) {
    const A16Slice slice = a16_slice(*range.x, i);
    for (int64_t p = 0; p < panels; ++p) {
      const uint8_t* const codes = scratch + p * sizes.panel_bytes;
      alignas(64) float acc[kSliceRows * kLanes] = {};
      kDots<panel_bits(kBits)>[slice.rows - 1]({.panel = codes,
                                                .scales = reinterpret_cast<const float*>(codes + sizes.codes_bytes),
                                                .codes = slice.codes,
                                                .d = slice.d,
                                                .s = slice.s,
                                                .groups = w.k / w.format.group,
                                                .group_blocks = w.format.group / kBlock},
                                               acc);
      const int64_t n = n0 + p * kLanes;
      for (int64_t r = 0; r < slice.rows; ++r) {
        store_columns(*range.y, slice.first + r, n, smaller(kLanes, w.n - n), acc + r * kLanes);
      }
    }
  }
}

template <int kBits>
void run_bits(const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const PanelSizes sizes = panel_sizes<kBits>(w.k, w.format.group, range.x->m);
  uint8_t* const codes = static_cast<uint8_t*>(range.scratch);
  float* const scales = reinterpret_cast<float*>(codes + sizes.codes_bytes);
  for (int64_t n = range.begin; n < range.end; n += kLanes * sizes.panels) {
    if (range.x->m > kSliceRows) {
      run_many_slices<kBits>(range, n, smaller(sizes.panels, (range.end - n + kLanes - 1) / kLanes), sizes);
    } else if (n + kLanes <= w.n) {
      run_one_slice<kBits, true>(range, n, codes, scales);
    } else {
      run_one_slice<kBits, false>(range, n, codes, scales);
    }
  }
}

void run_affine(const CpuQmmRange& range) {
  switch (range.weight->format.bits) {
    case 2:
      return run_bits<2>(range);
    case 3:
      return run_bits<3>(range);
    case 4:
      return run_bits<4>(range);
    case 5:
      return run_bits<5>(range);
    case 6:
      return run_bits<6>(range);
    case 8:
      return run_bits<8>(range);
    default:
      return;  // reject lets no other width through
  }
}

size_t affine_scratch_bytes(const QmmSpec& spec, int64_t m, int64_t) {
  const auto bytes = [](const PanelSizes& s) { return size_t(s.panel_bytes * s.panels); };
  const int64_t k = spec.k, group = spec.format.group;
  switch (spec.format.bits) {
    case 2:
      return bytes(panel_sizes<2>(k, group, m));
    case 4:
      return bytes(panel_sizes<4>(k, group, m));
    default:
      return bytes(panel_sizes<8>(k, group, m));
  }
}

ActivationKey affine_key(const QuantFormat& format) {
  const CodeOrder order = format.bits == 4   ? CodeOrder::Nibbles
                          : format.bits == 2 ? CodeOrder::Crumbs
                                             : CodeOrder::Natural;
  return {.form = ActivationForm::A16, .order = order, .group = format.group};
}

}  // namespace

const CpuQmmEntry kAffineAvx512Entry = {{},
                                        /*key=*/affine_key,
                                        /*prepare=*/prepare_a16_avx512,
                                        /*scratch_bytes=*/affine_scratch_bytes,
                                        /*run=*/run_affine,
                                        /*n_step=*/16};

}  // namespace loft
