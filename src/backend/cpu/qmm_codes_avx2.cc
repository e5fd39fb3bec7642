// backend/cpu: the fixed-point product on AVX2 and AVX-VNNI: panels of 16-bit words, x as 16-bit words.
#include "backend/cpu/qmm_codes_avx2.h"

#include <immintrin.h>

#include "backend/cpu/qmm_avx2.h"

namespace loft {
namespace {

LOFT_INLINE __m128i to_f16(__m256 v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}
LOFT_INLINE __m128i to_bf16(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i all = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(all, all), 0x08));
}

void store_avx2(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums) {
  const int64_t at = row * y.stride[0] + column;
  if (y.dtype == DType::F32) {
    std::memcpy(y.as<float>() + at, sums, size_t(count) * 4);
    return;
  }
  alignas(16) uint16_t halves[kPanelOutputs];
  for (int i = 0; i < kPanelOutputs; i += 8) {
    const __m256 v = _mm256_load_ps(sums + i);
    _mm_store_si128(reinterpret_cast<__m128i*>(halves + i), y.dtype == DType::F16 ? to_f16(v) : to_bf16(v));
  }
  std::memcpy(y.as<uint16_t>() + at, halves, size_t(count) * 2);
}

constexpr CodesIsa isa_with(const PanelSources& sources, TileFunction (*tile)(int64_t, int64_t, ActivationForm)) {
  return {.sources = &sources, .tile = tile, .store = store_avx2, .code_bytes = 2, .max_panels = 1};
}
constexpr CodesIsa kAvx2 = isa_with(kPanelSourcesAvx2, tile_avx2);
constexpr CodesIsa kAvxVnni = isa_with(kPanelSourcesAvx2, tile_avxvnni);
constexpr CodesIsa kPackedAvx2 = isa_with(kPanel16SourcesAvx2, tile_avx2);
constexpr CodesIsa kPackedAvxVnni = isa_with(kPanel16SourcesAvx2, tile_avxvnni);

template <int (*stride)(const QuantFormat&)>
ActivationKey key(const QuantFormat& format) {
  return {.form = ActivationForm::A16Words, .stride = stride(format), .group = format.group};
}
template <const CodesIsa& isa, int (*stride)(const QuantFormat&)>
constexpr CpuQmmEntry entry() {
  return {{}, key<stride>, prepare_words_avx2, codes_scratch<isa>, codes_run<isa>, kPanelOutputs};
}

}  // namespace

const CpuQmmEntry kCodesAvx2Entry = entry<kAvx2, pair_stride>();
const CpuQmmEntry kCodesAvxVnniEntry = entry<kAvxVnni, pair_stride>();
const CpuQmmEntry kPanel16Avx2Entry = entry<kPackedAvx2, packed_pair_stride>();
const CpuQmmEntry kPanel16AvxVnniEntry = entry<kPackedAvxVnni, packed_pair_stride>();

}  // namespace loft
