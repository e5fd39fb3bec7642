// engine: which candidate of a row a sum of weights falls on, without sorting the row. Enters: a row of logits; leaves:
// one candidate. A histogram over the distance to the largest logit finds the bucket, halving the bucket finds the
// candidate: about two passes over the row where a sort of 262144 values would take twenty.
#pragma once
#include <optional>
#include <vector>

#include "engine/logits.h"

namespace loft {

/// Memory that a caller keeps between calls.
struct SelectScratch {
  std::vector<double> buckets;
  std::vector<Candidate> members;
};

/// The candidates of a row up to `last` (all without it), in the order of comes_before, each with exp_weight((logit -
/// largest) / temperature). The row outlives this.
class WeightedRow {
 public:
  WeightedRow(std::span<const float> row, float largest, float temperature, std::optional<Candidate> last,
              SelectScratch& scratch);
  double total() const { return total_; }
  /// The first candidate at which the running sum is at least target (greater than it when is_above); the last
  /// candidate of any weight where none is.
  Candidate find(double target, bool is_above) const;

 private:
  double weight(float logit) const { return exp_weight((logit - largest_) / temperature_); }
  bool is_in(int32_t id, float logit) const { return !last_ || !comes_before(*last_, {id, logit}); }
  std::span<const float> row_;
  float largest_, temperature_;
  std::optional<Candidate> last_;
  SelectScratch* scratch_;
  double total_ = 0;
};

}  // namespace loft
