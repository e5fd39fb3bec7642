// measure: two logit traces of one corpus held against each other. What enters: parsed traces. What leaves: every
// figure of the report as a struct, and its texts. No model, no device.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "measure/trace_file.h"

namespace loft {

/// identical: equal data bytes. agree: no top-1 disagreement. inconclusive: disagreements, but no decided position
/// exists. rounding: disagreements only where nothing was decided. decided_differs: at least one at a decided position.
enum class CompareVerdict : uint8_t { Identical, Agree, Inconclusive, Rounding, DecidedDiffers };
const char* verdict_name(CompareVerdict verdict);

struct CompareArgs {
  double decided_gap = 2.0;  // a position is decided when the reference's first two logits are at least this far apart
  int64_t n_worst = 0;       // rows to list
};

struct GapBucket {
  double lo = 0;
  double hi = 0;  // infinity for the last
  int64_t n_positions = 0;
  int64_t n_disagreed = 0;
};

/// Quantile p of n sorted values is element min(floor(p * n), n - 1).
struct Quantiles {
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};

struct WorstRow {
  int64_t chunk = 0, pos = 0;
  double gap = 0;    // of the reference
  double delta = 0;  // |reference logit - candidate logit| of the reference's first id; NaN when not listed
  int64_t rank = 0;  // of the reference's first id in the candidate's list, from 1; 0: not listed
};

struct Comparison {
  std::string reference_model{}, candidate_model{};
  int64_t n_positions = 0;
  int64_t topk = 0;  // of the candidate's lists
  int64_t n_disagreed = 0;
  double decided_gap = 0;
  int64_t n_decided = 0;
  int64_t n_decided_disagreed = 0;
  std::vector<GapBucket> buckets{};                  // empty ones left out
  std::vector<std::pair<int64_t, int64_t>> ranks{};  // rank and how often, at disagreements; rank 0: not listed
  Quantiles delta{};
  double reference_ppl = 0, candidate_ppl = 0;
  std::optional<WorstRow> largest_gap{};  // the disagreement with the largest reference gap
  int64_t n_ties = 0;                     // disagreements where either side's first two logits are equal
  std::vector<std::pair<double, int64_t>> decided_counts{};  // at gaps 0.5, 1, 2 and decided_gap
  double nll_shift = 0, nll_shift_error = 0,
         nll_shift_z = 0;         // candidate - reference, paired; z is 0 when the error is
  double kl_p50 = 0, kl_p99 = 0;  // top-k lists renormalised on their common ids, reference against candidate
  std::vector<std::string> route_differences{};
  std::vector<WorstRow> worst{};
  bool same_data = false, same_file = false;
  std::string reference_data_sha256{}, candidate_data_sha256{};
  CompareVerdict verdict = CompareVerdict::Identical;
  std::vector<std::string> warnings{};  // differing shape metadata, overlooked lines
};

/// Error: BadRequest when the traces are not comparable: other row counts, or another target at any row.
Comparison compare_traces(const TraceFile& reference, const TraceFile& candidate, const CompareArgs& args);

std::string comparison_text(const Comparison& comparison);
OrderedJson comparison_json(const Comparison& comparison, const TraceFile& reference, const TraceFile& candidate);

/// Exit status under --fail-on: never 0; decided 1 on DecidedDiffers, 6 on Inconclusive; any 1 on a disagreement; bytes
/// 1 unless Identical.
int compare_exit_status(const Comparison& comparison, const std::string& fail_on);

}  // namespace loft
