// backend/cpu: weights in layout Panel16 on AVX-512: as a source of panels for the tile, and the direct kernel, which
// multiplies up to eight rows of x by codes that it unpacks in registers. Same arithmetic and same bytes as
// qmm_codes_avx512.cc.
#include <immintrin.h>

#include "backend/cpu/fp8_avx512.h"
#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_codes_avx512.h"

namespace loft {
namespace {

// To L1, this far ahead: each line of the weight is asked for as the one before it is used.
constexpr int64_t kPrefetchBytes = 4 << 10;

struct Bytes {
  using Vector = __m512i;
  static constexpr int64_t kSize = 64, kPanelCodeBytes = 1;
  LOFT_INLINE static Vector load(const uint8_t* at) { return _mm512_loadu_si512(at); }
  template <int kShift>
  LOFT_INLINE static Vector shift_right(Vector v) {
    if constexpr (kShift > 0) return _mm512_srli_epi16(v, kShift);
    if constexpr (kShift < 0) return _mm512_slli_epi16(v, -kShift);
    return v;
  }
  LOFT_INLINE static Vector keep(Vector v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8(char(mask))); }
  LOFT_INLINE static Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
  LOFT_INLINE static Vector fp4(Vector v) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kFp4Bytes));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), v);
  }
  template <int S>
  LOFT_INLINE static void store(uint8_t* panel, int quad, int64_t, Vector v) {
    _mm512_store_si512(panel + quad * 64, v);
  }
};

/// How scales are stored; one for a whole weight.
enum class ScaleKind : uint8_t { F32, F16, BF16, E8m0, E4m3 };
ScaleKind scale_kind(const QuantWeight& w) {
  if (w.format.kind == QuantKind::Mxfp4) return ScaleKind::E8m0;
  if (w.format.kind == QuantKind::Nvfp4) return ScaleKind::E4m3;
  return w.scale_dtype == DType::F32 ? ScaleKind::F32 : w.scale_dtype == DType::F16 ? ScaleKind::F16 : ScaleKind::BF16;
}

struct Scales {
  __m512 scale, bias;
};

/// Scales and biases of 16 outputs.
template <bool kFp4>
LOFT_INLINE Scales scales_from(const uint8_t* at, ScaleKind kind, float global_scale) {
  if constexpr (kFp4) {
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    const __m512 scale = kind == ScaleKind::E4m3 ? _mm512_mul_ps(sixteen_e4m3(codes), _mm512_set1_ps(global_scale))
                                                 : sixteen_e8m0(codes);
    return {_mm512_mul_ps(scale, _mm512_set1_ps(kFp4Scale)), _mm512_mul_ps(scale, _mm512_set1_ps(kFp4Bias))};
  }
  if (kind == ScaleKind::F32) return {_mm512_loadu_ps(at), _mm512_loadu_ps(at + 64)};
  const __m256i s = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32));
  if (kind == ScaleKind::F16) return {_mm512_cvtph_ps(s), _mm512_cvtph_ps(b)};
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(s), 16)),
          _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16))};
}

void load_scales(const QuantWeight& w, const uint8_t* at, float* scale, float* bias) {
  const ScaleKind kind = scale_kind(w);
  const Scales s = w.format.kind == QuantKind::Affine ? scales_from<false>(at, kind, w.global_scale)
                                                      : scales_from<true>(at, kind, w.global_scale);
  _mm512_storeu_ps(scale, s.scale);
  _mm512_storeu_ps(bias, s.bias);
}

}  // namespace
}  // namespace loft

#include "backend/cpu/qmm_panel16_body.h"

namespace loft {
namespace {

/// sum += codes * four bytes of x, in each lane. By name, so that x is broadcast by the load of the instruction itself.
LOFT_INLINE void add_dot(__m512i& sum, __m512i codes, const int8_t* x) {
  using Four = int32_t __attribute__((may_alias));
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const Four*>(x)));
}

/// Sums of a group: of each row and plane, in chains, so that ten are under way (as in qmm_tile_avx512.cc).
template <int kRows>
struct Shape {
  static constexpr int kSums = 2 * kRows;
  static constexpr int kChains = kSums <= 4 ? 2 : 1;
};

/// acc [kRows][16] += one group, whose planes are low and high; x: the group of the slice.
template <int kBits, bool kFp4, int kRows>
LOFT_INLINE void add_group(const uint8_t* low, const uint8_t* high, int64_t units, const int8_t* x, const Scales& s,
                           const float* d, const float* sums_of_x, float* acc) {
  using S = Shape<kRows>;
  __m512i sum[S::kSums * S::kChains];
#pragma GCC unroll 16
  for (int i = 0; i < S::kSums * S::kChains; ++i) sum[i] = _mm512_setzero_si512();
  for (int64_t u = 0; u < units; ++u) {
    if constexpr (high_bits(kBits) > 0) _mm_prefetch(reinterpret_cast<const char*>(high + kPrefetchBytes), _MM_HINT_T0);
    for_quads<kBits, kFp4>(
        low, high, [&](int quad, Bytes::Vector codes) __attribute__((always_inline)) {
          if (quad * low_bits(kBits) % 8 == 0) {
            _mm_prefetch(reinterpret_cast<const char*>(low + quad * low_bits(kBits) * 8 + kPrefetchBytes), _MM_HINT_T0);
          }
          const int8_t* const four = x + (quad / 4 * 8 + quad % 4) * 4 * kRows;
          __m512i* const to = sum + quad % S::kChains * S::kSums;
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            add_dot(to[2 * r], codes, four + 4 * r);
            add_dot(to[2 * r + 1], codes, four + 16 * kRows + 4 * r);
          }
        });
    low += unit_low_bytes(kBits);
    high += kQuadBytes;
    x += unit_quads(kBits) * 8 * kRows;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    __m512i hi = sum[2 * r], lo = sum[2 * r + 1];
    if constexpr (S::kChains == 2) {
      hi = _mm512_add_epi32(hi, sum[S::kSums + 2 * r]);
      lo = _mm512_add_epi32(lo, sum[S::kSums + 2 * r + 1]);
    }
    const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(hi, 8), lo)), s.scale);
    const __m512 f = _mm512_fmadd_ps(product, _mm512_set1_ps(d[r]), _mm512_load_ps(acc + r * kLanes));
    _mm512_store_ps(acc + r * kLanes, _mm512_fmadd_ps(s.bias, _mm512_set1_ps(sums_of_x[r]), f));
  }
  asm volatile("" ::: "memory");  // else g++ 12 keeps acc of many rows on the stack, beside its place
}

/// Outputs of one panel against one slice of kRows rows.
template <int kBits, bool kFp4, int kRows>
void direct_panel(const QuantWeight& w, const Panel16& p, const uint8_t* panel, const ActivationSlice& x, float* acc) {
  const int64_t group = w.format.group, units = group / (4 * unit_quads(kBits));
  const ScaleKind kind = scale_kind(w);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_store_ps(acc + r * kLanes, _mm512_setzero_ps());
  int64_t g = 0;
  for (const uint8_t* block = panel; g < p.groups; block += p.block_bytes) {
    const uint8_t* low = block;
    const uint8_t* scales = block + p.groups_a_block * p.code_bytes;
    _mm_prefetch(reinterpret_cast<const char*>(scales + kPrefetchBytes), _MM_HINT_T0);
    for (const int64_t end = smaller(p.groups, g + p.groups_a_block); g < end; ++g) {
      add_group<kBits, kFp4, kRows>(low, low + units * unit_low_bytes(kBits), units, x.codes + g * group * 2 * kRows,
                                    scales_from<kFp4>(scales, kind, w.global_scale), x.d + g * kRows, x.s + g * kRows,
                                    acc);
      low += p.code_bytes;
      scales += p.scale_bytes;
    }
  }
}

using DirectFunction = void (*)(const QuantWeight&, const Panel16&, const uint8_t*, const ActivationSlice&, float*);
template <int kBits, bool kFp4>
constexpr DirectFunction kDirect[kSliceRows] = {direct_panel<kBits, kFp4, 1>, direct_panel<kBits, kFp4, 2>,
                                                direct_panel<kBits, kFp4, 3>, direct_panel<kBits, kFp4, 4>,
                                                direct_panel<kBits, kFp4, 5>, direct_panel<kBits, kFp4, 6>,
                                                direct_panel<kBits, kFp4, 7>, direct_panel<kBits, kFp4, 8>};

const DirectFunction* direct_of(const QuantFormat& format) {
  static constexpr const DirectFunction* kAffine[] = {kDirect<2, false>, kDirect<3, false>, kDirect<4, false>,
                                                      kDirect<5, false>, kDirect<6, false>, kDirect<8, false>};
  if (format.kind != QuantKind::Affine) return kDirect<4, true>;
  return kAffine[format.bits == 8 ? 5 : format.bits - 2];
}

void run_direct(const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const Panel16 p = panel16_of(w);
  const DirectFunction* const direct = direct_of(w.format);
  alignas(64) float acc[kSliceRows * kLanes];
  for (int64_t n = range.begin; n < range.end; n += kLanes) {
    const int64_t count = smaller(kLanes, range.end - n);
    for (int64_t i = 0; i < activation_slices(range.x->m); ++i) {
      const ActivationSlice x = activation_slice(*range.x, i);
      direct[x.rows - 1](w, p, panel_at(w, p, n), x, acc);
      for (int r = 0; r < x.rows; ++r) store_columns(*range.y, x.first + r, n, count, acc + r * kLanes);
    }
  }
}

ActivationKey direct_key(const QuantFormat& format) {
  return {.form = ActivationForm::A16, .stride = quad_stride(format.bits), .group = format.group};
}
size_t no_scratch(const QmmSpec&, int64_t, int64_t) {
  return 0;
}

}  // namespace

constexpr PanelSources kPanel16SourcesAvx512 = kPanel16Sources;

const CpuQmmEntry kPanel16DirectAvx512Entry = {{},
                                               /*key=*/direct_key,
                                               /*prepare=*/prepare_codes_avx512,
                                               /*scratch_bytes=*/no_scratch,
                                               /*run=*/run_direct,
                                               /*n_step=*/kPanelOutputs};

}  // namespace loft
