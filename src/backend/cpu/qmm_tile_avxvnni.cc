// backend/cpu: qmm_tile_words_body.h by the vpdpwssd of AVX-VNNI.
#include <immintrin.h>

namespace {
struct Dot {
  static inline __attribute__((always_inline)) __m256i add(__m256i sum, __m256i w, __m256i x) {
    return _mm256_dpwssd_avx_epi32(sum, w, x);
  }
};
}  // namespace

#include "backend/cpu/qmm_tile_words_body.h"

namespace loft {

TileFunction tile_avxvnni(int64_t rows, int64_t, ActivationForm) {
  return word_tile_of(rows);
}

}  // namespace loft
