// backend/cpu: weights in layout Panel16 as panels of 16-bit words on AVX2.
#include <immintrin.h>

#include "backend/cpu/qmm_avx2.h"
#include "backend/cpu/qmm_codes_avx2.h"

namespace loft {
namespace {

struct Bytes {
  using Vector = __m256i;
  static constexpr int64_t kSize = 32, kPanelCodeBytes = 2;
  LOFT_INLINE static Vector load(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const Vector*>(at)); }
  template <int kShift>
  LOFT_INLINE static Vector shift_right(Vector v) {
    if constexpr (kShift > 0) return _mm256_srli_epi16(v, kShift);
    if constexpr (kShift < 0) return _mm256_slli_epi16(v, -kShift);
    return v;
  }
  LOFT_INLINE static Vector keep(Vector v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8(char(mask))); }
  LOFT_INLINE static Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
  LOFT_INLINE static Vector fp4(Vector v) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_16_bytes(kFp4Bytes)), v);
  }
  /// The bytes of a quad that are two apart share a dword as words: pairs of inputs 2 S apart (packed_pair_stride).
  template <int S>
  LOFT_INLINE static void store(uint8_t* panel, int quad, int64_t part, Vector v) {
    uint8_t* const to = panel + (quad / S * 2 * S + quad % S) * 64 + part * kSize;
    const Vector low = _mm256_set1_epi16(0xff);
    _mm256_store_si256(reinterpret_cast<Vector*>(to), _mm256_and_si256(v, low));
    _mm256_store_si256(reinterpret_cast<Vector*>(to + S * 64), _mm256_and_si256(_mm256_srli_epi16(v, 8), low));
  }
};

/// Eight of them.
LOFT_INLINE __m256 load_eight(const uint8_t* at, DType dtype) {
  if (dtype == DType::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  const __m128i halves = load_16_bytes(at);
  if (dtype == DType::F16) return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

void load_scales(const QuantWeight& w, const uint8_t* at, float* scale, float* bias) {
  const int64_t bytes = int64_t(dtype_bytes(w.scale_dtype));
  for (int64_t i = 0; i < kPanelOutputs; i += 8) {
    if (w.format.kind == QuantKind::Affine) {
      _mm256_storeu_ps(scale + i, load_eight(at + i * bytes, w.scale_dtype));
      _mm256_storeu_ps(bias + i, load_eight(at + (kPanelOutputs + i) * bytes, w.scale_dtype));
      continue;
    }
    const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + i)));
    const __m256 s = w.format.kind == QuantKind::Nvfp4
                         ? _mm256_mul_ps(eight_e4m3(codes), _mm256_set1_ps(w.global_scale))
                         : eight_e8m0(codes);
    _mm256_storeu_ps(scale + i, _mm256_mul_ps(s, _mm256_set1_ps(kFp4Scale)));
    _mm256_storeu_ps(bias + i, _mm256_mul_ps(s, _mm256_set1_ps(kFp4Bias)));
  }
}

}  // namespace
}  // namespace loft

#include "backend/cpu/qmm_panel16_body.h"

namespace loft {

constexpr PanelSources kPanel16SourcesAvx2 = kPanel16Sources;

}  // namespace loft
