// backend/cpu: the f32 row of qmm_f32_body.h in AVX-512 vectors.
#include "backend/cpu/fp8_avx512.h"
#include "core/dtype.h"

namespace loft {
namespace {

struct Vec {
  using Type = __m512;
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 6;  // 24 sums, 4 weights and one x fill 29 of 32 registers
  LOFT_INLINE static Type zero() { return _mm512_setzero_ps(); }
  LOFT_INLINE static Type load(const float* p) { return _mm512_loadu_ps(p); }
  LOFT_INLINE static Type load_first(const float* p, int n) {
    return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1u), p);
  }
  LOFT_INLINE static Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  LOFT_INLINE static float sum(Type v) { return _mm512_reduce_add_ps(v); }
};

struct Sixteen {
  __m512 v;
  LOFT_INLINE static Sixteen from_unsigned(__m128i bytes) { return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))}; }
  LOFT_INLINE static Sixteen from_signed(__m128i bytes) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))}; }
  LOFT_INLINE static Sixteen from_e4m3(__m128i bytes) { return {sixteen_e4m3(_mm512_cvtepu8_epi32(bytes))}; }
  LOFT_INLINE static Sixteen from_halves(const uint8_t* p, DType dtype) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if (dtype == DType::F16) return {_mm512_cvtph_ps(halves)};
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
  }
  LOFT_INLINE Sixteen times(float s) const { return {_mm512_mul_ps(v, _mm512_set1_ps(s))}; }
  LOFT_INLINE Sixteen plus(float b) const { return {_mm512_add_ps(v, _mm512_set1_ps(b))}; }
  LOFT_INLINE void store(float* out) const { _mm512_storeu_ps(out, v); }
};

}  // namespace
}  // namespace loft

#include "backend/cpu/qmm_f32_body.h"

namespace loft {

const CpuQmmEntry kF32Avx512Entry = {
    {}, /*key=*/f32_key, /*prepare=*/prepare_f32, /*scratch_bytes=*/f32_scratch_bytes, /*run=*/run_f32, /*n_step=*/4};

}  // namespace loft
