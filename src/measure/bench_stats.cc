#include "measure/bench_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace loft {
namespace {

constexpr double kCoverage = 0.95;

/// For each u, the share of orderings of na + nb values in which u pairs have b below a. Mann and Whitney's recurrence.
std::vector<double> mann_whitney(size_t na, size_t nb) {
  // counts[j][u]: orderings of i values of a and j of b, for the current i.
  std::vector<std::vector<double>> counts(nb + 1, std::vector<double>(na * nb + 1, 0.0));
  for (auto& row : counts) row[0] = 1;
  for (size_t i = 1; i <= na; ++i) {
    for (size_t j = 1; j <= nb; ++j) {
      std::vector<double> next(na * nb + 1, 0.0);
      for (size_t u = 0; u <= i * j; ++u) {
        // The largest value is one of a (above all j of b), or one of b.
        next[u] = (u >= j ? counts[j][u - j] : 0.0) + counts[j - 1][u];
      }
      counts[j] = std::move(next);
    }
  }
  std::vector<double> share = counts[nb];
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& s : share) s /= total;
  return share;
}

// Beyond this the statistic is normal to more digits than a clock has, and counting orderings takes long.
constexpr size_t kMostExact = 200;

Shift normal_interval(const std::vector<double>& differences, double na, double nb) {
  const double half_width = 1.959964 * std::sqrt(na * nb * (na + nb + 1) / 12);
  const size_t k = size_t(std::max(1.0, std::floor(na * nb / 2 - half_width)));
  return {.shift = median_of(differences),
          .lo = differences[k - 1],
          .hi = differences[differences.size() - k],
          .coverage = kCoverage};
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

OrderInterval order_interval(size_t n) {
  if (n == 0) return {};
  OrderInterval best{.lo = 1, .hi = n, .coverage = 0};
  // Fewer than k of n samples lie below the median with chance P(Bin(n, 1/2) < k).
  double tail = 0, term = std::pow(0.5, double(n));
  for (size_t k = 1; 2 * k <= n + 1; ++k) {
    tail += term;
    term *= double(n - k + 1) / double(k);
    const double coverage = std::max(0.0, 1 - 2 * tail);
    if (k > 1 && coverage < kCoverage) break;
    best = {.lo = k, .hi = n + 1 - k, .coverage = coverage};
    if (coverage < kCoverage) break;
  }
  return best;
}

SampleStats sample_stats(std::span<const double> samples) {
  SampleStats s{.n = samples.size()};
  if (samples.empty()) return s;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  s.median = median_of(sorted);
  s.min = sorted.front();
  s.max = sorted.back();
  s.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(s.n);
  double squares = 0;
  std::vector<double> distances;
  for (const double x : sorted) {
    squares += (x - s.mean) * (x - s.mean);
    distances.push_back(std::fabs(x - s.median));
  }
  if (s.n > 1) s.stdev = std::sqrt(squares / double(s.n - 1));
  s.mad = 1.4826 * median_of(std::move(distances));
  const OrderInterval interval = order_interval(s.n);
  s.ci_lo = sorted[interval.lo - 1];
  s.ci_hi = sorted[interval.hi - 1];
  s.ci_coverage = interval.coverage;
  return s;
}

Shift shift_between(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences;
  for (const double x : a) {
    for (const double y : b) differences.push_back(y - x);
  }
  if (differences.empty()) return {};
  std::sort(differences.begin(), differences.end());
  if (a.size() + b.size() > kMostExact) return normal_interval(differences, double(a.size()), double(b.size()));
  const std::vector<double> share = mann_whitney(a.size(), b.size());
  // The interval [d(k), d(N + 1 - k)] misses the shift with chance 2 P(U < k).
  const size_t n = differences.size();
  Shift out{.shift = median_of(differences), .lo = differences.front(), .hi = differences.back()};
  double tail = 0;
  for (size_t k = 1; 2 * k <= n + 1; ++k) {
    tail += share[k - 1];
    const double coverage = std::max(0.0, 1 - 2 * tail);
    if (k > 1 && coverage < kCoverage) break;
    out.lo = differences[k - 1];
    out.hi = differences[n - k];
    out.coverage = coverage;
    if (coverage < kCoverage) break;
  }
  return out;
}

}  // namespace loft
