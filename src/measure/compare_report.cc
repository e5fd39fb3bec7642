// measure: the texts of a comparison: the report in its fixed order, and the same figures as JSON.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "measure/compare_traces.h"

namespace loft {
namespace {

double percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * double(part) / double(whole) : 0.0;
}

std::string rank_text(int64_t rank, int64_t topk) {
  return rank > 0 ? std::to_string(rank) : fmt::format(">{}", topk);
}

std::string bucket_text(const GapBucket& b) {
  return std::isinf(b.hi) ? fmt::format("[{}, inf)", b.lo) : fmt::format("[{}, {})", b.lo, b.hi);
}

const char* verdict_sentence(CompareVerdict verdict) {
  constexpr const char* kSentences[] = {
      "every scored byte is the same",
      "the likeliest token is the same at every position; logits may differ",
      "the likeliest tokens differ somewhere, and no position is decided at this gap",
      "the likeliest tokens differ only at positions that are not decided",
      "the likeliest token differs at a decided position",
  };
  return kSentences[int(verdict)];
}

// A non-finite number never enters JSON.
nlohmann::ordered_json finite(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

OrderedJson worst_json(const WorstRow& w) {
  return {{"chunk", w.chunk}, {"pos", w.pos}, {"gap", w.gap}, {"delta", finite(w.delta)}, {"rank", w.rank}};
}

std::string disagreement_text(const Comparison& c) {
  std::string out = "ranks of the reference's first id at disagreements:\n";
  for (const auto& [rank, count] : c.ranks) {
    if (rank == 0) continue;
    out += fmt::format("  {:>4} {:>8} {:>7.3f} %\n", rank_text(rank, c.topk), count, percent(count, c.n_disagreed));
  }
  const bool is_unlisted = c.ranks.front().first == 0;
  if (is_unlisted) {
    out += fmt::format("  {:>4} {:>8} {:>7.3f} %\n", rank_text(0, c.topk), c.ranks.front().second,
                       percent(c.ranks.front().second, c.n_disagreed));
  }
  return out + fmt::format("  worst rank {}\n", rank_text(is_unlisted ? 0 : c.ranks.back().first, c.topk));
}

}  // namespace

std::string comparison_text(const Comparison& c) {
  std::string out;
  const auto line = [&](const std::string& text) { out += text + "\n"; };
  for (const std::string& warning : c.warnings) line("warning: " + warning);
  line(fmt::format("reference {}\ncandidate {}\npositions {}", c.reference_model, c.candidate_model, c.n_positions));
  line(fmt::format("top-1 disagreement {} / {} ({:.3f} %)", c.n_disagreed, c.n_positions,
                   percent(c.n_disagreed, c.n_positions)));
  line(c.n_decided == 0 ? fmt::format("no decided positions (gap >= {})", c.decided_gap)
                        : fmt::format("decided (gap >= {}) {} / {} ({:.3f} %)", c.decided_gap, c.n_decided_disagreed,
                                      c.n_decided, percent(c.n_decided_disagreed, c.n_decided)));
  line(fmt::format("{:<12} {:>10} {:>10} {:>9}", "gap", "positions", "disagreed", "rate"));
  for (const GapBucket& b : c.buckets) {
    line(fmt::format("{:<12} {:>10} {:>10} {:>7.3f} %", bucket_text(b), b.n_positions, b.n_disagreed,
                     percent(b.n_disagreed, b.n_positions)));
  }
  if (c.n_disagreed > 0) out += disagreement_text(c);
  line(fmt::format("delta p50 {:.4f} p90 {:.4f} p99 {:.4f} max {:.4f}", c.delta.p50, c.delta.p90, c.delta.p99,
                   c.delta.max));
  line(fmt::format("perplexity {:.4f} against {:.4f} ({:+.3f} %)", c.reference_ppl, c.candidate_ppl,
                   100 * (c.candidate_ppl / c.reference_ppl - 1)));
  if (c.largest_gap) {
    line(fmt::format("largest reference gap at a disagreement {:.6f} (chunk {}, pos {}, rank {})", c.largest_gap->gap,
                     c.largest_gap->chunk, c.largest_gap->pos, rank_text(c.largest_gap->rank, c.topk)));
  }
  line(fmt::format("disagreements at exact ties {}", c.n_ties));
  std::string decided = "decided positions";
  for (const auto& [at, count] : c.decided_counts) decided += fmt::format(" {}: {}", at, count);
  line(decided);
  line(fmt::format("mean nll shift {:+.6f} +/- {:.6f} (z {:+.2f})", c.nll_shift, c.nll_shift_error, c.nll_shift_z));
  line(fmt::format("top-{} KL p50 {:.3e} p99 {:.3e}", c.topk, c.kl_p50, c.kl_p99));
  for (const std::string& difference : c.route_differences) line("routes: " + difference);
  for (const WorstRow& w : c.worst) {
    line(fmt::format("row chunk {} pos {} gap {:.6f} delta {:.6f} rank {}", w.chunk, w.pos, w.gap, w.delta,
                     rank_text(w.rank, c.topk)));
  }
  line(fmt::format("bytes: data {} {} {}; file {}", c.same_data ? "identical" : "different", c.reference_data_sha256,
                   c.candidate_data_sha256, c.same_file ? "identical" : "different"));
  line(fmt::format("verdict: {}: {}", verdict_name(c.verdict), verdict_sentence(c.verdict)));
  return out;
}

OrderedJson comparison_json(const Comparison& c, const TraceFile& reference, const TraceFile& candidate) {
  OrderedJson buckets = OrderedJson::array(), ranks = OrderedJson::array(), worst = OrderedJson::array();
  for (const GapBucket& b : c.buckets) {
    buckets.push_back({{"lo", b.lo}, {"hi", finite(b.hi)}, {"positions", b.n_positions}, {"disagreed", b.n_disagreed}});
  }
  for (const auto& [rank, count] : c.ranks) ranks.push_back({{"rank", rank}, {"count", count}});
  for (const WorstRow& w : c.worst) worst.push_back(worst_json(w));
  OrderedJson decided = OrderedJson::array();
  for (const auto& [at, count] : c.decided_counts) decided.push_back({{"gap", at}, {"positions", count}});
  return {{"schema", "loft.compare/1"},
          {"verdict", verdict_name(c.verdict)},
          {"positions", c.n_positions},
          {"disagreed", c.n_disagreed},
          {"decided_gap", c.decided_gap},
          {"decided", c.n_decided},
          {"decided_disagreed", c.n_decided_disagreed},
          {"buckets", buckets},
          {"ranks", ranks},
          {"delta", {{"p50", c.delta.p50}, {"p90", c.delta.p90}, {"p99", c.delta.p99}, {"max", c.delta.max}}},
          {"perplexity", {{"reference", finite(c.reference_ppl)}, {"candidate", finite(c.candidate_ppl)}}},
          {"largest_gap", c.largest_gap ? worst_json(*c.largest_gap) : OrderedJson(nullptr)},
          {"ties", c.n_ties},
          {"decided_counts", decided},
          {"nll_shift", {{"mean", c.nll_shift}, {"error", c.nll_shift_error}, {"z", c.nll_shift_z}}},
          {"kl", {{"p50", c.kl_p50}, {"p99", c.kl_p99}}},
          {"route_differences", c.route_differences},
          {"worst", worst},
          {"bytes",
           {{"data_identical", c.same_data},
            {"file_identical", c.same_file},
            {"reference_data_sha256", c.reference_data_sha256},
            {"candidate_data_sha256", c.candidate_data_sha256}}},
          {"warnings", c.warnings},
          {"reference", {{"where", reference.where}, {"metadata", reference.metadata}}},
          {"candidate", {{"where", candidate.where}, {"metadata", candidate.metadata}}}};
}

}  // namespace loft
