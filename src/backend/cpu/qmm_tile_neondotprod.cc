// backend/cpu: qmm_tile_neon_body.h by sdot (ARMv8.2 dot product).
#include <arm_neon.h>

namespace {
struct Dot {
  static inline __attribute__((always_inline)) int32x4_t add(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    return vdotq_s32(sum, vreinterpretq_s8_u8(w), x);
  }
  template <int kLane>
  static inline __attribute__((always_inline)) int32x4_t add_lane(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    return vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w), x, kLane);
  }
};
}  // namespace

#include "backend/cpu/qmm_tile_neon_body.h"

namespace loft {

TileFunction tile_neondotprod(int64_t rows, int64_t, ActivationForm form) {
  return byte_tile_of(rows, form);
}

}  // namespace loft
