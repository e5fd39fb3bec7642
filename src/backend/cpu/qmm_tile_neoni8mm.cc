// backend/cpu: qmm_tile_neon_body.h by usdot (ARMv8.6 int8 matrix multiplication).
#include <arm_neon.h>

namespace {
struct Dot {
  static inline __attribute__((always_inline)) int32x4_t add(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    return vusdotq_s32(sum, w, x);
  }
  template <int kLane>
  static inline __attribute__((always_inline)) int32x4_t add_lane(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    return vusdotq_laneq_s32(sum, w, x, kLane);
  }
};
}  // namespace

#include "backend/cpu/qmm_tile_neon_body.h"

namespace loft {

TileFunction tile_neoni8mm(int64_t rows, int64_t, ActivationForm form) {
  return byte_tile_of(rows, form);
}

}  // namespace loft
