// backend/cpu: qmm_tile_words_body.h by vpmaddwd and vpaddd.
#include <immintrin.h>

namespace {
struct Dot {
  static inline __attribute__((always_inline)) __m256i add(__m256i sum, __m256i w, __m256i x) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
  }
};
}  // namespace

#include "backend/cpu/qmm_tile_words_body.h"

namespace loft {

TileFunction tile_avx2(int64_t rows, int64_t, ActivationForm) {
  return word_tile_of(rows);
}

}  // namespace loft
