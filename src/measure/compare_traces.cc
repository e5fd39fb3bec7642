#include "measure/compare_traces.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"

namespace loft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBucketEdges[] = {0, 0.5, 1, 2, 5, 10, kInfinity};

double gap(const TraceRow& row) {
  return row.top_logits[0] - row.top_logits[1];
}

bool is_tied(const TraceRow& row) {
  return gap(row) == 0;
}

// 1-based place of an id in a row's list; 0 when it is not there.
int64_t rank_of(int32_t id, const TraceRow& row) {
  const auto found = std::find(row.top_ids.begin(), row.top_ids.end(), id);
  return found == row.top_ids.end() ? 0 : found - row.top_ids.begin() + 1;
}

double quantile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const size_t n = sorted.size();
  return sorted[std::min(size_t(p * double(n)), n - 1)];
}

// KL(reference || candidate) over the ids that both lists hold, each list renormalised on them.
double common_kl(const TraceRow& reference, const TraceRow& candidate) {
  std::vector<std::pair<double, double>> pairs;
  for (size_t i = 0; i < reference.top_ids.size(); ++i) {
    const int64_t rank = rank_of(reference.top_ids[i], candidate);
    if (rank > 0) pairs.emplace_back(reference.top_logits[i], candidate.top_logits[size_t(rank - 1)]);
  }
  if (pairs.empty()) return 0;
  double max_r = -kInfinity, max_c = -kInfinity;
  for (auto [r, c] : pairs) {
    max_r = std::max(max_r, r);
    max_c = std::max(max_c, c);
  }
  double sum_r = 0, sum_c = 0;
  for (auto [r, c] : pairs) {
    sum_r += std::exp(r - max_r);
    sum_c += std::exp(c - max_c);
  }
  double kl = 0;
  for (auto [r, c] : pairs) {
    const double log_r = r - max_r - std::log(sum_r);
    const double log_c = c - max_c - std::log(sum_c);
    kl += std::exp(log_r) * (log_r - log_c);
  }
  return std::max(kl, 0.0);
}

void check_aligned(const TraceFile& reference, const TraceFile& candidate) {
  if (reference.rows.size() != candidate.rows.size()) {
    fail(Code::BadRequest, "not comparable: {} has {} rows, {} has {}", reference.where, reference.rows.size(),
         candidate.where, candidate.rows.size());
  }
  int64_t n_other = 0;
  size_t first = 0;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    if (reference.rows[i].target == candidate.rows[i].target) continue;
    if (n_other++ == 0) first = i;
  }
  if (n_other > 0) {
    fail(Code::BadRequest, "not comparable: {} rows have another target, the first is row {} ({} against {})", n_other,
         first, reference.rows[first].target, candidate.rows[first].target);
  }
}

void compare_metadata(const TraceFile& reference, const TraceFile& candidate, Comparison& out) {
  out.warnings = reference.warnings;
  out.warnings.insert(out.warnings.end(), candidate.warnings.begin(), candidate.warnings.end());
  for (const char* key : {"tokens", "chunk_tokens", "prefill", "topk", "start", "logits"}) {
    const auto r = reference.metadata.find(key);
    const auto c = candidate.metadata.find(key);
    if (r == reference.metadata.end() || c == candidate.metadata.end() || r->second == c->second) continue;
    out.warnings.push_back(fmt::format("{} differs: {} against {}", key, r->second, c->second));
  }
  int64_t n_moved = 0;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    const TraceRow& r = reference.rows[i];
    const TraceRow& c = candidate.rows[i];
    n_moved += r.chunk != c.chunk || r.pos != c.pos;
  }
  if (n_moved > 0) out.warnings.push_back(fmt::format("chunk or position differs at {} rows", n_moved));
}

void compare_routes(const TraceFile& reference, const TraceFile& candidate, Comparison& out) {
  const size_t n = std::min(reference.forwards.size(), candidate.forwards.size());
  for (size_t i = 0; i < n; ++i) {
    const TraceForward& r = reference.forwards[i];
    const TraceForward& c = candidate.forwards[i];
    for (const char* key : {"routes", "kernels"}) {
      const auto rv = r.fields.find(key);
      const auto cv = c.fields.find(key);
      if (rv == r.fields.end() || cv == c.fields.end() || rv->second == cv->second) continue;
      out.route_differences.push_back(
          fmt::format("chunk {} {} {}: {} against {}", r.chunk, r.what, key, rv->second, cv->second));
    }
  }
}

void compare_nll(const TraceFile& reference, const TraceFile& candidate, Comparison& out) {
  const double n = double(reference.rows.size());
  double sum_r = 0, sum_c = 0;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    sum_r += reference.rows[i].nll;
    sum_c += candidate.rows[i].nll;
  }
  out.reference_ppl = std::exp(sum_r / n);
  out.candidate_ppl = std::exp(sum_c / n);
  out.nll_shift = (sum_c - sum_r) / n;
  double squares = 0;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    const double d = candidate.rows[i].nll - reference.rows[i].nll - out.nll_shift;
    squares += d * d;
  }
  out.nll_shift_error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  out.nll_shift_z = out.nll_shift_error > 0 ? out.nll_shift / out.nll_shift_error : 0;
}

CompareVerdict verdict_of(const Comparison& c) {
  if (c.same_data) return CompareVerdict::Identical;
  if (c.n_disagreed == 0) return CompareVerdict::Agree;
  if (c.n_decided == 0) return CompareVerdict::Inconclusive;
  return c.n_decided_disagreed == 0 ? CompareVerdict::Rounding : CompareVerdict::DecidedDiffers;
}

// The row's share of counts, buckets, ranks and extremes.
void add_row(const TraceRow& r, const TraceRow& c, Comparison& out, std::map<int64_t, int64_t>& ranks,
             std::vector<WorstRow>& all) {
  const double row_gap = gap(r);
  const bool disagrees = r.top_ids[0] != c.top_ids[0];
  const int64_t rank = rank_of(r.top_ids[0], c);
  const bool decided = row_gap >= out.decided_gap;
  out.n_disagreed += disagrees;
  out.n_decided += decided;
  out.n_decided_disagreed += decided && disagrees;
  for (GapBucket& b : out.buckets) {
    if (row_gap < b.lo || row_gap >= b.hi) continue;
    ++b.n_positions;
    b.n_disagreed += disagrees;
  }
  for (auto& [at, count] : out.decided_counts) count += row_gap >= at;
  const double delta =
      rank > 0 ? std::fabs(r.top_logits[0] - c.top_logits[size_t(rank - 1)]) : std::numeric_limits<double>::quiet_NaN();
  const WorstRow row{.chunk = r.chunk, .pos = r.pos, .gap = row_gap, .delta = delta, .rank = rank};
  all.push_back(row);
  if (!disagrees) return;
  ++ranks[rank];
  out.n_ties += is_tied(r) || is_tied(c);
  if (!out.largest_gap || row_gap > out.largest_gap->gap) out.largest_gap = row;
}

// Disagreements first, the largest gap before smaller ones; then the largest logit differences.
void list_worst(std::vector<WorstRow> all, int64_t n, Comparison& out) {
  const auto key = [](const WorstRow& w) {
    return std::make_pair(w.rank == 1 ? 0.0 : w.gap + 1e-12, std::isnan(w.delta) ? kInfinity : w.delta);
  };
  std::stable_sort(all.begin(), all.end(), [&](const WorstRow& a, const WorstRow& b) { return key(a) > key(b); });
  all.resize(std::min(all.size(), size_t(std::max<int64_t>(n, 0))));
  out.worst = std::move(all);
}

}  // namespace

const char* verdict_name(CompareVerdict verdict) {
  constexpr const char* kNames[] = {"identical", "agree", "inconclusive", "rounding", "decided-differs"};
  return kNames[int(verdict)];
}

Comparison compare_traces(const TraceFile& reference, const TraceFile& candidate, const CompareArgs& args) {
  check_aligned(reference, candidate);
  Comparison out{.n_positions = int64_t(reference.rows.size()), .decided_gap = args.decided_gap};
  const auto model_of = [](const TraceFile& trace) {
    const auto found = trace.metadata.find("model");
    return found == trace.metadata.end() ? trace.where : found->second;
  };
  out.reference_model = model_of(reference);
  out.candidate_model = model_of(candidate);
  out.topk = int64_t(candidate.rows[0].top_ids.size());
  for (size_t i = 0; i + 1 < std::size(kBucketEdges); ++i) {
    out.buckets.push_back({.lo = kBucketEdges[i], .hi = kBucketEdges[i + 1]});
  }
  out.decided_counts = {{0.5, 0}, {1, 0}, {2, 0}, {args.decided_gap, 0}};
  std::map<int64_t, int64_t> ranks;
  std::vector<WorstRow> all;
  std::vector<double> deltas, kls;
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    add_row(reference.rows[i], candidate.rows[i], out, ranks, all);
    if (!std::isnan(all.back().delta)) deltas.push_back(all.back().delta);
    kls.push_back(common_kl(reference.rows[i], candidate.rows[i]));
  }
  std::erase_if(out.buckets, [](const GapBucket& b) { return b.n_positions == 0; });
  out.ranks.assign(ranks.begin(), ranks.end());
  std::sort(deltas.begin(), deltas.end());
  std::sort(kls.begin(), kls.end());
  out.delta = {quantile(deltas, 0.5), quantile(deltas, 0.9), quantile(deltas, 0.99),
               deltas.empty() ? 0 : deltas.back()};
  out.kl_p50 = quantile(kls, 0.5);
  out.kl_p99 = quantile(kls, 0.99);
  compare_metadata(reference, candidate, out);
  compare_routes(reference, candidate, out);
  compare_nll(reference, candidate, out);
  list_worst(std::move(all), args.n_worst, out);
  out.reference_data_sha256 = reference.data_sha256;
  out.candidate_data_sha256 = candidate.data_sha256;
  out.same_data = reference.data_sha256 == candidate.data_sha256;
  out.same_file = reference.file_sha256 == candidate.file_sha256;
  out.verdict = verdict_of(out);
  return out;
}

int compare_exit_status(const Comparison& c, const std::string& fail_on) {
  if (fail_on == "decided") {
    if (c.verdict == CompareVerdict::DecidedDiffers) return 1;
    return c.verdict == CompareVerdict::Inconclusive ? 6 : 0;
  }
  if (fail_on == "any") return c.n_disagreed > 0 ? 1 : 0;
  if (fail_on == "bytes") return c.verdict == CompareVerdict::Identical ? 0 : 1;
  return 0;
}

}  // namespace loft
