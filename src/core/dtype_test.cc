#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace loft {
namespace {

// Nearest half of x by search over all finite halves: the slow truth for f32_to_f16.
uint16_t nearest_half(float x) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t h = 0; h < 0x7c00u; ++h) {
    const double distance = std::fabs(double(f16_to_f32(uint16_t(h))) - std::fabs(double(x)));
    if (distance < best_distance || (distance == best_distance && (h & 1) == 0)) {
      best = uint16_t(h);
      best_distance = distance;
    }
  }
  return uint16_t(best | (std::signbit(x) ? 0x8000u : 0u));
}

TEST(DType, EveryHalfSurvivesTheWayThroughF32) {
  for (uint32_t h = 0; h < 0x10000u; ++h) {
    const float x = f16_to_f32(uint16_t(h));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(x))));
    } else {
      ASSERT_EQ(f32_to_f16(x), h) << "half " << h;
    }
  }
}

TEST(DType, RoundingToHalfIsToNearestEven) {
  for (float x :
       {1.0f + 0x1p-11f, 1.0f + 0x1p-10f + 0x1p-11f, 0x1p-25f, 0x1.8p-24f, 6e-8f, 3.14159f, -0.1f, 65519.0f}) {
    EXPECT_EQ(f32_to_f16(x), nearest_half(x)) << x;
  }
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-65504.0f), 0xfbff);
}

TEST(DType, EveryBf16SurvivesTheWayThroughF32) {
  for (uint32_t b = 0; b < 0x10000u; ++b) {
    const float x = bf16_to_f32(uint16_t(b));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(x))));
    } else {
      ASSERT_EQ(f32_to_bf16(x), b);
    }
  }
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);            // tie to even, down
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);  // tie to even, up
}

}  // namespace
}  // namespace loft
