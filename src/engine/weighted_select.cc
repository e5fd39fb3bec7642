// engine: the histogram and the halving of weighted_select.h.
#include "engine/weighted_select.h"

#include <algorithm>

namespace loft {
namespace {

// Buckets of 1/64 of a logit: of 262144 logits spread as 3 sigma normals at most some hundred share one. Weights below
// e^-32 are 0 after rounding, so nothing of weight stands in the last bucket at temperatures up to 1.
constexpr int kBuckets = 2048;
constexpr float kBucketsALogit = 64.0f;

int bucket_of(float logit, float largest) {
  const float at = (largest - logit) * kBucketsALogit, most = float(kBuckets - 1);
  return int(at < most ? at : most);
}

}  // namespace

WeightedRow::WeightedRow(std::span<const float> row, float largest, float temperature, std::optional<Candidate> last,
                         SelectScratch& scratch)
    : row_(row), largest_(largest), temperature_(temperature), last_(last), scratch_(&scratch) {
  scratch.buckets.assign(kBuckets, 0.0);
  constexpr size_t kRun = 256;
  double weights[kRun];
  int at[kRun];
  double* const buckets = scratch.buckets.data();
  for (size_t begin = 0; begin < row.size(); begin += kRun) {
    const size_t n = std::min(kRun, row.size() - begin);
    const float* const x = row.data() + begin;
    exp_weights(row.subspan(begin, n), largest, temperature, weights);
    for (size_t i = 0; i < n; ++i) at[i] = bucket_of(x[i], largest);
    if (last) {
      for (size_t i = 0; i < n; ++i) weights[i] = is_in(int32_t(begin + i), x[i]) ? weights[i] : 0.0;
    }
    for (size_t i = 0; i < n; ++i) buckets[at[i]] += weights[i];
  }
  for (double mass : scratch.buckets) total_ += mass;
}

Candidate WeightedRow::find(double target, bool is_above) const {
  const auto reaches = [&](double sum) { return is_above ? sum > target : sum >= target; };
  const std::vector<double>& buckets = scratch_->buckets;
  double sum = 0;
  int at = -1, weighted = 0;
  for (int b = 0; b < kBuckets && at < 0; ++b) {
    if (buckets[size_t(b)] > 0) weighted = b;
    if (reaches(sum + buckets[size_t(b)])) at = b;
    if (at < 0) sum += buckets[size_t(b)];
  }
  if (at < 0) {
    at = weighted;
    sum = 0;
    for (int b = 0; b < at; ++b) sum += buckets[size_t(b)];
  }
  std::vector<Candidate>& members = scratch_->members;
  members.clear();
  const float* const row = row_.data();
  const size_t n = row_.size();
  const float largest = largest_;
  for (size_t i = 0; i < n; ++i) {
    if (bucket_of(row[i], largest) == at && is_in(int32_t(i), row[i])) members.push_back({int32_t(i), row[i]});
  }
  // Halves: everything before `begin` is in `sum`, and the wanted candidate stands before `end`.
  auto begin = members.begin(), end = members.end();
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, comes_before);
    double mass = 0;
    for (auto c = begin; c != middle; ++c) mass += weight(c->logit);
    if (reaches(sum + mass)) {
      end = middle;
    } else {
      sum += mass;
      begin = middle;
    }
  }
  std::sort(begin, end, comes_before);
  Candidate found = *begin;
  for (auto c = begin; c != end; ++c) {
    const double w = weight(c->logit);
    if (w > 0) found = *c;
    sum += w;
    if (reaches(sum)) return *c;
  }
  return found;
}

}  // namespace loft
