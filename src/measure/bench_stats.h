// measure: statistics of measured samples. Numbers enter; medians, spreads and intervals leave. Nothing assumes a
// normal distribution: times on a shared machine have a long tail on one side.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace loft {

/// The median of values; 0 for none.
double median_of(std::vector<double> values);

/// Ranks, from 1, of the order statistics that bound the median of n samples, and the chance that they do.
struct OrderInterval {
  size_t lo = 0, hi = 0;
  double coverage = 0;
};
/// The narrowest symmetric interval that covers at least 95 %; the whole range where even that covers less (n < 6).
OrderInterval order_interval(size_t n);

/// All figures of one set of samples; 0 for none. mad: 1.4826 times the median absolute deviation. stdev: with n - 1.
struct SampleStats {
  size_t n = 0;
  double median = 0, min = 0, max = 0, mad = 0, mean = 0, stdev = 0;
  double ci_lo = 0, ci_hi = 0, ci_coverage = 0;  // order-statistic interval of the median
};
SampleStats sample_stats(std::span<const double> samples);

/// Shift from a to b of two unpaired sets: the median of all differences b - a (Hodges and Lehmann 1963), and the
/// interval of at least 95 % that the exact distribution of the Mann-Whitney statistic gives; the whole range of
/// differences where no interval reaches that.
struct Shift {
  double shift = 0, lo = 0, hi = 0;
  double coverage = 0;
};
Shift shift_between(std::span<const double> a, std::span<const double> b);

}  // namespace loft
