// The generator against the known answers that its authors publish (Random123, kat_vectors).
#include "engine/random.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

using Four = std::array<uint32_t, 4>;

TEST(Random, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t all = 0xffffffffu;
  EXPECT_EQ(philox4x32({all, all, all, all}, {all, all}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, DrawsLieInTheUnitIntervalAndAverageToOneHalf) {
  double sum = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const double u = uniform_draw(7, i, 0);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);  // standard error 0.002
}

TEST(Random, SeedIndexAndDrawEachChangeTheNumber) {
  const double u = uniform_draw(1, 2, 3);
  EXPECT_EQ(u, uniform_draw(1, 2, 3));
  EXPECT_NE(u, uniform_draw(2, 2, 3));
  EXPECT_NE(u, uniform_draw(1, 3, 3));
  EXPECT_NE(u, uniform_draw(1, 2, 4));
  EXPECT_NE(u, uniform_draw(1 + (uint64_t(1) << 40), 2, 3));
}

}  // namespace
}  // namespace loft
