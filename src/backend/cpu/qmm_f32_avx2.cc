// backend/cpu: the f32 row of qmm_f32_body.h in AVX2 vectors.
#include "backend/cpu/qmm_avx2.h"
#include "core/dtype.h"

namespace loft {
namespace {

struct Vec {
  using Type = __m256;
  static constexpr int kWidth = 8;
  static constexpr int kTileRows = 2;  // 8 sums, 4 weights and one x fill 13 of 16 registers
  LOFT_INLINE static Type zero() { return _mm256_setzero_ps(); }
  LOFT_INLINE static Type load(const float* p) { return _mm256_loadu_ps(p); }
  LOFT_INLINE static Type load_first(const float* p, int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
  }
  LOFT_INLINE static Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  LOFT_INLINE static float sum(Type v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
};

struct Sixteen {
  __m256 a, b;
  LOFT_INLINE static Sixteen from_unsigned(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  LOFT_INLINE static Sixteen from_signed(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  LOFT_INLINE static Sixteen from_e4m3(__m128i bytes) {
    return {eight_e4m3(_mm256_cvtepu8_epi32(bytes)), eight_e4m3(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  LOFT_INLINE static __m256 eight_halves(const uint8_t* p, DType dtype) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if (dtype == DType::F16) return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  LOFT_INLINE static Sixteen from_halves(const uint8_t* p, DType dtype) {
    return {eight_halves(p, dtype), eight_halves(p + 16, dtype)};
  }
  LOFT_INLINE Sixteen times(float s) const {
    return {_mm256_mul_ps(a, _mm256_set1_ps(s)), _mm256_mul_ps(b, _mm256_set1_ps(s))};
  }
  LOFT_INLINE Sixteen plus(float c) const {
    return {_mm256_add_ps(a, _mm256_set1_ps(c)), _mm256_add_ps(b, _mm256_set1_ps(c))};
  }
  LOFT_INLINE void store(float* out) const {
    _mm256_storeu_ps(out, a);
    _mm256_storeu_ps(out + 8, b);
  }
};

}  // namespace
}  // namespace loft

#include "backend/cpu/qmm_f32_body.h"

namespace loft {

const CpuQmmEntry kF32Avx2Entry = {
    {}, /*key=*/f32_key, /*prepare=*/prepare_f32, /*scratch_bytes=*/f32_scratch_bytes, /*run=*/run_f32, /*n_step=*/4};

}  // namespace loft
