// backend/cpu: fixed-point activations on AVX-512. The same bytes as prepare_codes_scalar, which says what they mean.
#include <immintrin.h>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_avx2.h"

namespace loft {
namespace {

template <DType kType>
LOFT_INLINE __m512 load16(const uint8_t* row, int64_t i) {
  if constexpr (kType == DType::F32) return _mm512_loadu_ps(row + i * 4);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i * 2));
  if constexpr (kType == DType::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// Positions of 16 codes, see input_at.
LOFT_INLINE __m128i order_bytes(int stride) {
  alignas(16) int8_t at[16];
  for (int i = 0; i < 16; ++i) at[i] = int8_t(input_at(4, stride, i));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(at));
}

/// Largest bits of |x| in a group, for group_scale.
template <DType kType>
LOFT_INLINE uint32_t largest_bits(const uint8_t* row, int64_t first, int group) {
  __m512i top = _mm512_setzero_si512();
  for (int i = 0; i < group; i += 16) {
    const __m512i bits = _mm512_castps_si512(load16<kType>(row, first + i));
    top = _mm512_max_epu32(top, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  return _mm512_reduce_max_epu32(top);
}

template <DType kType, int kPlanes>
void prepare_row(const uint8_t* in, const PreparedActivations& x, const ActivationSlice& slice, int r) {
  constexpr float kTop = kPlanes == 2 ? kA16Top : kA8Top;
  const int group = x.key.group;
  const __m128i order = order_bytes(x.key.stride);
  const int64_t stride = int64_t{4} * slice.rows;
  for (int64_t g = 0; g < x.k / group; ++g) {
    const GroupScale scale = group_scale(largest_bits<kType>(in, g * group, group), kTop);
    const __m512 inverse = _mm512_set1_ps(scale.inverse);
    const __mmask16 keep = scale.is_zero ? 0 : 0xffff;
    __m512i sum = _mm512_setzero_si512();
    int8_t* out = slice.codes + g * group * kPlanes * slice.rows + r * 4;
    for (int i = 0; i < group; i += 16) {
      const __m512i q = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(load16<kType>(in, g * group + i), inverse));
      sum = _mm512_add_epi32(sum, q);
      if constexpr (kPlanes == 1) {
        store_dwords(out, stride, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(q), order));
      } else {
        const __m512i hi = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
        const __m512i lo = _mm512_sub_epi32(q, _mm512_slli_epi32(hi, 8));
        store_dwords(out, stride, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(hi), order));
        store_dwords(out + 4 * stride, stride, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(lo), order));
      }
      out += 4 * kPlanes * stride;
    }
    slice.d[g * slice.rows + r] = scale.d;
    slice.s[g * slice.rows + r] = scale.d * float(_mm512_reduce_add_epi32(sum));
  }
}

template <DType kType>
void prepare_rows(const uint8_t* data, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  const int64_t pitch = out.k * (kType == DType::F32 ? 4 : 2);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const ActivationSlice slice = activation_slice(out, row / kSliceRows);
    const int r = int(row - slice.first);
    slice.planes == 2 ? prepare_row<kType, 2>(data + row * pitch, out, slice, r)
                      : prepare_row<kType, 1>(data + row * pitch, out, slice, r);
  }
}

}  // namespace

void prepare_codes_avx512(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
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
