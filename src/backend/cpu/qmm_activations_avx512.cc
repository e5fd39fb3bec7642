// backend/cpu: A16 activations on AVX-512. The same bytes as prepare_a16_scalar, which says what they mean.
#include <immintrin.h>

#include "backend/cpu/activations.h"

namespace loft {
namespace {

#define LOFT_INLINE inline __attribute__((always_inline))

template <DType kType>
LOFT_INLINE __m512 load16(const uint8_t* row, int64_t i) {
  if constexpr (kType == DType::F32) return _mm512_loadu_ps(row + i * 4);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i * 2));
  if constexpr (kType == DType::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// Positions of 16 codes in their order, see code_order_source.
LOFT_INLINE __m128i order_bytes(CodeOrder order) {
  if (order == CodeOrder::Nibbles) return _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  if (order == CodeOrder::Crumbs) return _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Four quads of one row, `stride` bytes apart.
LOFT_INLINE void store_quads(int8_t* out, int64_t stride, __m128i quads) {
  if (stride == 4) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), quads);
    return;
  }
  const int q[4] = {_mm_cvtsi128_si32(quads), _mm_extract_epi32(quads, 1), _mm_extract_epi32(quads, 2),
                    _mm_extract_epi32(quads, 3)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) __builtin_memcpy(out + i * stride, &q[i], 4);
}

/// Largest bits of |x| in a group: for numbers that is max |x|, and anything from 0x7f800000 on is not finite.
template <DType kType>
LOFT_INLINE uint32_t largest_bits(const uint8_t* row, int64_t first, int group) {
  __m512i top = _mm512_setzero_si512();
  for (int i = 0; i < group; i += 16) {
    const __m512i bits = _mm512_castps_si512(load16<kType>(row, first + i));
    top = _mm512_max_epu32(top, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  return _mm512_reduce_max_epu32(top);
}

template <DType kType>
void prepare_row(const uint8_t* in, const PreparedActivations& x, const A16Slice& slice, int r) {
  const int group = x.key.group;
  const __m128i order = order_bytes(x.key.order);
  const int64_t stride = int64_t{4} * slice.rows;
  for (int64_t g = 0; g < x.k / group; ++g) {
    const uint32_t bits = largest_bits<kType>(in, g * group, group);
    float a;
    __builtin_memcpy(&a, &bits, 4);
    const bool is_finite = bits < 0x7f800000u;
    const bool is_zero = !is_finite || a < kA16Tiny;
    const float d = !is_finite ? __builtin_nanf("") : is_zero ? 0.0f : a / kA16Max;
    const __m512 inverse = _mm512_set1_ps(is_zero ? 0.0f : kA16Max / a);
    const __mmask16 keep = is_zero ? 0 : 0xffff;
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < group; i += 16) {
      const int64_t at = g * group + i;
      const __m512i q = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(load16<kType>(in, at), inverse));
      sum = _mm512_add_epi32(sum, q);
      const __m512i hi = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
      const __m512i lo = _mm512_sub_epi32(q, _mm512_slli_epi32(hi, 8));
      int8_t* const out = slice.codes + (at / 32) * 16 * stride + (at % 32 / 4) * stride + r * 4;
      store_quads(out, stride, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(hi), order));
      store_quads(out + 8 * stride, stride, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(lo), order));
    }
    slice.d[g * slice.rows + r] = d;
    slice.s[g * slice.rows + r] = d * float(_mm512_reduce_add_epi32(sum));
  }
}

}  // namespace

void prepare_a16_avx512(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  const uint8_t* const data = static_cast<const uint8_t*>(x.data);
  const int64_t pitch = out.k * (x.dtype == DType::F32 ? 4 : 2);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const A16Slice slice = a16_slice(out, row / kSliceRows);
    const int r = int(row - slice.first);
    switch (x.dtype) {
      case DType::F32:
        prepare_row<DType::F32>(data + row * pitch, out, slice, r);
        break;
      case DType::F16:
        prepare_row<DType::F16>(data + row * pitch, out, slice, r);
        break;
      default:
        prepare_row<DType::BF16>(data + row * pitch, out, slice, r);
        break;
    }
  }
}

}  // namespace loft
