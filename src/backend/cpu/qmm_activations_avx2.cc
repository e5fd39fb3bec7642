// backend/cpu: fixed-point activations as 16-bit words on AVX2. The same bytes as prepare_codes_scalar, which says what
// they mean.
#include <immintrin.h>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_avx2.h"

namespace loft {
namespace {

template <DType kType>
LOFT_INLINE __m256 load8(const uint8_t* row, int64_t i) {
  if constexpr (kType == DType::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(row + i * 4));
  const __m128i halves = load_16_bytes(row + i * 2);
  if constexpr (kType == DType::F16) return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/// Largest bits of |x| in a group, for group_scale.
template <DType kType>
LOFT_INLINE uint32_t largest_bits(const uint8_t* row, int64_t first, int group) {
  __m256i top = _mm256_setzero_si256();
  for (int i = 0; i < group; i += 8) {
    const __m256i bits = _mm256_castps_si256(load8<kType>(row, first + i));
    top = _mm256_max_epu32(top, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
  }
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  return uint32_t(_mm_cvtsi128_si32(_mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1))));
}

LOFT_INLINE int sum_lanes(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

/// Words of 16 inputs in order, as two halves, become pairs of inputs `stride` apart (input_at).
LOFT_INLINE void pair_words(int stride, __m128i order, __m128i* words) {
  if (stride == 8) {
    const __m128i low = _mm_unpacklo_epi16(words[0], words[1]);
    words[1] = _mm_unpackhi_epi16(words[0], words[1]);
    words[0] = low;
  } else {
    words[0] = _mm_shuffle_epi8(words[0], order);
    words[1] = _mm_shuffle_epi8(words[1], order);
  }
}

template <DType kType>
void prepare_row(const uint8_t* in, const PreparedActivations& x, const ActivationSlice& slice, int r) {
  const int group = x.key.group;
  alignas(16) int8_t order_bytes[16];  // of the words of eight inputs; strides up to 4 stay within them
  for (int i = 0; i < 16; ++i) order_bytes[i] = int8_t(input_at(2, x.key.stride, i / 2) * 2 + i % 2);
  const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(order_bytes));
  const int64_t pitch = int64_t{4} * slice.rows;
  for (int64_t g = 0; g < x.k / group; ++g) {
    const GroupScale scale = group_scale(largest_bits<kType>(in, g * group, group), kA16Top);
    const __m256 inverse = _mm256_set1_ps(scale.inverse);
    const __m256i keep = _mm256_set1_epi32(scale.is_zero ? 0 : -1);  // NaN * 0 would not be 0
    __m256i sum = _mm256_setzero_si256();
    int8_t* out = slice.codes + g * group * 2 * slice.rows + r * 4;
    for (int i = 0; i < group; i += 16) {
      __m256i q[2];
      for (int half = 0; half < 2; ++half) {
        const __m256 v = _mm256_mul_ps(load8<kType>(in, g * group + i + half * 8), inverse);
        q[half] = _mm256_and_si256(_mm256_cvtps_epi32(v), keep);
        sum = _mm256_add_epi32(sum, q[half]);
      }
      const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
      __m128i words[2] = {_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)};
      pair_words(x.key.stride, order, words);
      store_dwords(out, pitch, words[0]);
      store_dwords(out + 4 * pitch, pitch, words[1]);
      out += 8 * pitch;
    }
    slice.d[g * slice.rows + r] = scale.d;
    slice.s[g * slice.rows + r] = scale.d * float(sum_lanes(sum));
  }
}

template <DType kType>
void prepare_rows(const uint8_t* data, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  const int64_t pitch = out.k * (kType == DType::F32 ? 4 : 2);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const ActivationSlice slice = activation_slice(out, row / kSliceRows);
    prepare_row<kType>(data + row * pitch, out, slice, int(row - slice.first));
  }
}

}  // namespace

void prepare_words_avx2(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  const uint8_t* const data = static_cast<const uint8_t*>(x.data);
  switch (x.dtype) {
    case DType::F32:
      return prepare_rows<DType::F32>(data, row_begin, row_end, out);
    case DType::F16:
      return prepare_rows<DType::F16>(data, row_begin, row_end, out);
    default:
      return prepare_rows<DType::BF16>(data, row_begin, row_end, out);
  }
}

}  // namespace loft
