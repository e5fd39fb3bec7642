#include "measure/bench_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace loft {
namespace {

TEST(BenchStats, OrderIntervalsAreThoseOfTheBinomialDistribution) {
  struct Known {
    size_t n, lo, hi;
    double coverage;
  };
  // 1 - 2 P(Bin(n, 1/2) < lo), worked out by hand. Mutant: bench_interval_wide (n = 12 gives 4..9).
  for (const Known& k : {Known{1, 1, 1, 0.0}, Known{2, 1, 2, 0.5}, Known{5, 1, 5, 0.9375}, Known{6, 1, 6, 0.96875},
                         Known{8, 1, 8, 0.9921875}, Known{9, 2, 8, 0.9609375}, Known{12, 3, 10, 0.96142578125},
                         Known{20, 6, 15, 0.95861053466796875}}) {
    const OrderInterval i = order_interval(k.n);
    EXPECT_EQ(i.lo, k.lo) << k.n;
    EXPECT_EQ(i.hi, k.hi) << k.n;
    EXPECT_NEAR(i.coverage, k.coverage, 1e-12) << k.n;
  }
  EXPECT_EQ(order_interval(0).lo, 0u);
}

TEST(BenchStats, FiguresOfHandWorkedSamples) {
  const SampleStats s = sample_stats(std::vector<double>{4, 1, 100, 2, 3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(s.mean, 22);
  EXPECT_NEAR(s.mad, 1.4826, 1e-12);  // distances 1 2 97 1 0, their median 1
  EXPECT_NEAR(s.stdev, std::sqrt((18.0 * 18 + 21 * 21 + 78 * 78 + 20 * 20 + 19 * 19) / 4), 1e-12);
  EXPECT_EQ(s.ci_lo, 1);
  EXPECT_EQ(s.ci_hi, 100);
  EXPECT_EQ(s.ci_coverage, 0.9375);
  EXPECT_EQ(sample_stats(std::vector<double>{1, 2, 3, 10}).median, 2.5);
  const SampleStats one = sample_stats(std::vector<double>{7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.stdev, 0);
  EXPECT_EQ(sample_stats({}).n, 0u);
}

TEST(BenchStats, ShiftIsHodgesLehmannWithTheExactMannWhitneyInterval) {
  const std::vector<double> a = {1, 2, 3, 4, 5}, b = {11, 12, 13, 14, 15};
  const Shift s = shift_between(a, b);
  EXPECT_EQ(s.shift, 10);
  // For 5 and 5 the published critical value of U at 5 % is 2: the third smallest and largest of 25 differences bound
  // the shift with 1 - 2 * 4 / 252. Mutant: bench_shift_rank.
  EXPECT_NEAR(s.coverage, 1 - 2 * 4.0 / 252, 1e-12);
  EXPECT_EQ(s.lo, 7);
  EXPECT_EQ(s.hi, 13);
  // 3 and 3: no interval reaches 95 %; the whole range has 1 - 2 / 20.
  const Shift small = shift_between(std::vector<double>{1, 2, 3}, std::vector<double>{2, 3, 4});
  EXPECT_EQ(small.shift, 1);
  EXPECT_NEAR(small.coverage, 0.9, 1e-12);
  EXPECT_EQ(small.lo, -1);
  EXPECT_EQ(small.hi, 3);
  EXPECT_EQ(shift_between({}, b).coverage, 0);
}

TEST(BenchStats, ShiftOfManySamplesIsFiniteAndNarrow) {
  std::vector<double> a, b;
  for (int i = 0; i < 300; ++i) {
    a.push_back(100 + i % 7);
    b.push_back(103 + i % 7);
  }
  const Shift s = shift_between(a, b);
  EXPECT_EQ(s.shift, 3);
  EXPECT_GT(s.lo, 2);
  EXPECT_LT(s.hi, 4);
}

}  // namespace
}  // namespace loft
