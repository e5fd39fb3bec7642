// backend/cpu: one row of x against affine weights of 4 or 8 bits on AVX-512 VNNI. The bytes of y are those of
// qmm_codes_avx512.cc; here the weight is read in one straight line, which is what the memory is fastest at.
//
// Read this first. A piece is 16 bytes of codes (32 of 4 bits, 16 of 8 bits); rows follow each other without a gap, so
// 16 rows of K pieces are K blocks of 16 pieces. A block is four registers; transposed within their 128-bit lanes they
// hold the same four inputs of 16 pieces, which meet activations that were laid out in the same way. Pass 1 makes
// float(sum of code * q) * scale of every group, in the order of the file; pass 2 takes 16 rows as lanes and adds the
// groups in the canonical order.
#include <immintrin.h>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_rows.h"

namespace loft {
namespace {

/// Quads of inputs in a piece, and registers of transposed words.
constexpr int quads_of(int bits) {
  return 32 / bits;
}
// Into L2, far ahead. Share of a plain read of the same buffers, one thread, Zen 4, without and with: 4096 x 4096 4-bit
// g64 67 and 84-89 %, 49152 x 576 8-bit g32 91 and 103-106 %, 576 x 576 4-bit g32 69 and 77-80 %. T0 at 1 and 4 KiB
// and NTA at 2 KiB gave 57-65, 82-90 and 64-70 %.
constexpr int64_t kPrefetchBytes = 16 << 10;
constexpr int64_t kPieces = 16;  // of a block

/// Sum of code * q for each piece of a block: lane 4 l + c holds piece 4 c + l. `bytes` may be read.
template <int kBits, bool kFull>
LOFT_INLINE __m512i block_sums(const uint8_t* w, const int8_t* q, int64_t bytes) {
  __m512i z[4];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    if constexpr (kFull) {
      _mm_prefetch(reinterpret_cast<const char*>(w + c * 64 + kPrefetchBytes), _MM_HINT_T1);
      z[c] = _mm512_loadu_si512(w + c * 64);
    } else {
      const int64_t left = bytes - c * 64;
      const __mmask64 mask = left >= 64 ? ~__mmask64{0} : left <= 0 ? 0 : (__mmask64{1} << left) - 1;
      z[c] = _mm512_maskz_loadu_epi8(mask, w + c * 64);
    }
  }
  transpose_quads(z);
  constexpr int kPack = 8 / kBits, kQuads = quads_of(kBits);
  __m512i hi[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i lo[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 8
  for (int quad = 0; quad < kQuads; ++quad) {
    __m512i v = z[quad / kPack];
    if constexpr (kPack > 1) {
      if (quad % kPack > 0) v = _mm512_srli_epi16(v, kBits);
      v = _mm512_and_si512(v, _mm512_set1_epi8((1 << kBits) - 1));
    }
    hi[quad % 2] = _mm512_dpbusd_epi32(hi[quad % 2], v, _mm512_load_si512(q + quad * 128));
    lo[quad % 2] = _mm512_dpbusd_epi32(lo[quad % 2], v, _mm512_load_si512(q + quad * 128 + 64));
  }
  return _mm512_add_epi32(_mm512_slli_epi32(_mm512_add_epi32(hi[0], hi[1]), 8), _mm512_add_epi32(lo[0], lo[1]));
}

/// Sums of pieces (as block_sums leaves them, kPerGroup blocks) to the sums of 16 groups in the order of the file.
template <int kPerGroup>
LOFT_INLINE __m512i group_sums(const __m512i* pieces) {
  if constexpr (kPerGroup == 1) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), pieces[0]);
  }
  __m512i z[kPerGroup];
#pragma GCC unroll 8
  for (int b = 0; b < kPerGroup; ++b) {
    z[b] = _mm512_add_epi32(pieces[b], _mm512_shuffle_i64x2(pieces[b], pieces[b], 0xb1));  // lanes 0 + 1, 2 + 3
    if constexpr (kPerGroup >= 4) z[b] = _mm512_add_epi32(z[b], _mm512_shuffle_i64x2(z[b], z[b], 0x4e));
    if constexpr (kPerGroup == 8) {
      z[b] = _mm512_add_epi32(z[b], _mm512_shuffle_epi32(z[b], _MM_PERM_ENUM(0xb1)));
      z[b] = _mm512_shuffle_epi32(z[b], _MM_PERM_ENUM(0x88));
    }
  }
  if constexpr (kPerGroup == 2) {
    const __m512i from = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    return _mm512_permutex2var_epi32(z[0], from, z[1]);
  }
  constexpr int kGroups = 16 / kPerGroup;  // of a block; they stand in every lane alike
  __m512i sums = z[0];
#pragma GCC unroll 8
  for (int b = 1; b < kPerGroup; ++b) {
    sums = _mm512_mask_mov_epi32(sums, __mmask16(((1u << kGroups) - 1u) << (b * kGroups)), z[b]);
  }
  return sums;
}

template <DType kType>
LOFT_INLINE __m512 load_scales(const uint8_t* scales, __mmask16 mask) {
  if constexpr (kType == DType::F32) return _mm512_maskz_loadu_ps(mask, scales);
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, scales);
  if constexpr (kType == DType::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// The activations of block b are those of block b modulo `blocks`.
struct VectorX {
  const int8_t* codes;
  int64_t blocks;
};

/// Pass 1: products[i] = float(group sum) * scale for `groups` consecutive groups, which begin a row.
template <int kBits, int kPerGroup, DType kType>
void scale_groups(const uint8_t* w, const uint8_t* scales, const uint8_t* biases, const VectorX& x, int64_t groups,
                  float* products) {
  constexpr int64_t kBlockBytes = kPieces * 16;
  constexpr int64_t kScaleBytes = kType == DType::F32 ? 4 : 2;
  constexpr int64_t kXBytes = quads_of(kBits) * 128;
  // As far ahead in time as the words. Pass 2 reads the biases, but asks too late: 16 rows at once.
  constexpr int64_t kScalesAhead = kPrefetchBytes / (kPerGroup * 16) * kScaleBytes;
  int64_t at = 0;
  int64_t g = 0;
  for (; g + 16 <= groups; g += 16) {
    __m512i pieces[kPerGroup];
#pragma GCC unroll 2
    for (int b = 0; b < kPerGroup; ++b) {
      pieces[b] = block_sums<kBits, true>(w, x.codes + at * kXBytes, kBlockBytes);
      at = at + 1 == x.blocks ? 0 : at + 1;
      w += kBlockBytes;
    }
    _mm_prefetch(reinterpret_cast<const char*>(scales + g * kScaleBytes + kScalesAhead), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(biases + g * kScaleBytes + kScalesAhead), _MM_HINT_T1);
    const __m512 scale = load_scales<kType>(scales + g * kScaleBytes, 0xffff);
    _mm512_store_ps(products + g, _mm512_mul_ps(_mm512_cvtepi32_ps(group_sums<kPerGroup>(pieces)), scale));
  }
  if (g == groups) return;
  __m512i pieces[kPerGroup];
  int64_t bytes = (groups - g) * kPerGroup * 16;
  for (int b = 0; b < kPerGroup; ++b) {
    pieces[b] = block_sums<kBits, false>(w, x.codes + at * kXBytes, bytes);
    at = at + 1 == x.blocks ? 0 : at + 1;
    w += kBlockBytes;
    bytes -= kBlockBytes;
  }
  const __m512 scale = load_scales<kType>(scales + g * kScaleBytes, __mmask16((1u << (groups - g)) - 1u));
  _mm512_store_ps(products + g, _mm512_mul_ps(_mm512_cvtepi32_ps(group_sums<kPerGroup>(pieces)), scale));
}

/// Pass 2: 16 rows as lanes; products [16][groups], biases of the weight's rows, d and s [groups].
template <bool kFull>
LOFT_INLINE __m512 add_groups(const float* products, const Rows<kFull>& biases, DType dtype,
                              const PreparedActivations& x, int64_t groups) {
  __m512 acc = _mm512_setzero_ps();
  alignas(64) float both[16 * 2 * kLanes];  // [group][product, bias][row]
  for (int64_t g = 0; g < groups; g += 16) {
    const int64_t count = smaller(16, groups - g);
    const __mmask16 mask = __mmask16((1u << count) - 1u);
    const Rows<kFull> here = {biases.base + g * (dtype == DType::F32 ? 4 : 2), biases.pitch, biases.last};
    repack_scales(here, dtype, count, both + kLanes);
    __m512i z[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) z[i] = _mm512_maskz_loadu_epi32(mask, products + i * groups + g);
    transpose_16x16(z);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_si512(both + i * 2 * kLanes, z[i]);
    for (int64_t i = 0; i < count; ++i) {
      acc = _mm512_fmadd_ps(_mm512_load_ps(both + i * 2 * kLanes), _mm512_set1_ps(x.d[g + i]), acc);
      acc = _mm512_fmadd_ps(_mm512_load_ps(both + (i * 2 + 1) * kLanes), _mm512_set1_ps(x.s[g + i]), acc);
    }
  }
  return acc;
}

template <int kBits, int kPerGroup, DType kType>
void run_typed(const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const int64_t groups = w.k / w.format.group;
  const int64_t word_pitch = w.k * kBits / 8, scale_pitch = groups * (kType == DType::F32 ? 4 : 2);
  const VectorX x = {range.x->codes, vector_blocks(w.k, kBits)};
  float* const products = static_cast<float*>(range.scratch);
  for (int64_t n = range.begin; n < range.end; n += kLanes) {
    const int64_t rows = smaller(kLanes, w.n - n);
    const uint8_t* const biases = static_cast<const uint8_t*>(w.biases) + n * scale_pitch;
    scale_groups<kBits, kPerGroup, kType>(static_cast<const uint8_t*>(w.words) + n * word_pitch,
                                          static_cast<const uint8_t*>(w.scales) + n * scale_pitch, biases, x,
                                          rows * groups, products);
    alignas(64) float sums[kLanes];
    _mm512_store_ps(sums, rows == kLanes
                              ? add_groups<true>(products, {biases, scale_pitch, kLanes - 1}, kType, *range.x, groups)
                              : add_groups<false>(products, {biases, scale_pitch, rows - 1}, kType, *range.x, groups));
    store_columns(*range.y, 0, n, rows, sums);
  }
}

template <int kBits, int kPerGroup>
void run_group(const CpuQmmRange& range) {
  switch (range.weight->scale_dtype) {
    case DType::F32:
      return run_typed<kBits, kPerGroup, DType::F32>(range);
    case DType::F16:
      return run_typed<kBits, kPerGroup, DType::F16>(range);
    default:
      return run_typed<kBits, kPerGroup, DType::BF16>(range);
  }
}

void run_vector(const CpuQmmRange& range) {
  const QuantFormat& f = range.weight->format;
  switch (f.bits * f.group / 128) {
    case 1:
      return run_group<4, 1>(range);
    case 2:
      return f.bits == 4 ? run_group<4, 2>(range) : run_group<8, 2>(range);
    case 4:
      return f.bits == 4 ? run_group<4, 4>(range) : run_group<8, 4>(range);
    default:
      return run_group<8, 8>(range);
  }
}

/// q of a row as A16 slices of one row have it, at the end of the codes, then spread over the blocks.
template <int kBits>
void spread(const int8_t* row, int64_t pieces, int64_t blocks, int8_t* out) {
  constexpr int kQuads = quads_of(kBits);
  for (int64_t b = 0; b < blocks; ++b) {
    const int8_t* from[16];
    for (int64_t i = 0; i < kPieces; ++i) {
      const int64_t piece = (b * kPieces + i) % pieces;
      from[i] = row + piece * kQuads * 8;
    }
    for (int plane = 0; plane < 2; ++plane) {
      for (int first = 0; first < kQuads; first += 4) {
        __m512i z[4];
        for (int c = 0; c < 4; ++c) {
          z[c] = _mm512_setzero_si512();
          const auto quads = [&](int i) {
            return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[i] + plane * 16 + first * 8));
          };
          z[c] = _mm512_inserti32x4(z[c], quads(4 * c), 0);
          z[c] = _mm512_inserti32x4(z[c], quads(4 * c + 1), 1);
          z[c] = _mm512_inserti32x4(z[c], quads(4 * c + 2), 2);
          z[c] = _mm512_inserti32x4(z[c], quads(4 * c + 3), 3);
        }
        transpose_quads(z);
        for (int t = 0; t < 4; ++t) _mm512_store_si512(out + ((b * kQuads + first + t) * 2 + plane) * 64, z[t]);
      }
    }
  }
}

void prepare_vector(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  if (row_begin == row_end) return;
  const int bits = out.key.stride == 2 ? 4 : 8;
  const int64_t blocks = vector_blocks(out.k, bits);
  PreparedActivations row = out;
  row.codes = out.codes + blocks * quads_of(bits) * 128;
  prepare_codes_avx512(x, 0, 1, row);
  const int64_t pieces = out.k * bits / 128;
  bits == 4 ? spread<4>(row.codes, pieces, blocks, out.codes) : spread<8>(row.codes, pieces, blocks, out.codes);
}

ActivationKey vector_key(const QuantFormat& format) {
  return {.form = ActivationForm::A16Vector, .stride = format.bits == 4 ? 2 : 1, .group = format.group};
}

size_t vector_scratch_bytes(const QmmSpec& spec, int64_t, int64_t) {
  return size_t((spec.k / spec.format.group) * kLanes) * sizeof(float);
}

}  // namespace

const CpuQmmEntry kVectorAvx512Entry = {{},
                                        /*key=*/vector_key,
                                        /*prepare=*/prepare_vector,
                                        /*scratch_bytes=*/vector_scratch_bytes,
                                        /*run=*/run_vector,
                                        /*n_step=*/16};

}  // namespace loft
