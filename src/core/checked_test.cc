#include "core/checked.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

TEST(Checked, ProductsThatDoNotFitAreSeen) {
  const uint64_t wraps[] = {4294967296u, 4294967296u};
  const uint64_t fits[] = {3, 5, 7};
  const uint64_t empty_but_huge[] = {4294967296u, 4294967296u, 0};
  EXPECT_EQ(checked_product(wraps), std::nullopt);
  EXPECT_EQ(checked_product(fits), 105u);
  EXPECT_EQ(checked_product(empty_but_huge), 0u);
  EXPECT_EQ(checked_product({}), 1u);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_mul(UINT64_MAX, 1), UINT64_MAX);
}

}  // namespace
}  // namespace loft
