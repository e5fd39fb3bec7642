// measure: two result files held against each other, row by row. Runs that were not interleaved cannot tell a change
// from the machine's drift, so the strongest word is "differs (unpaired)". Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "measure/bench_stats.h"

namespace loft {

struct BenchPair {
  std::string name;  // model, test and settings
  double ratio = 1;  // of the medians, new to old
  double old_ts = 0, new_ts = 0;
  Shift shift{};  // of the samples in tokens a second
  double peak_change_bytes = 0;
  bool same_kernels = true;  // each pass ran the same rows as often
  bool differs = false;
};

struct BenchComparison {
  std::vector<BenchPair> pairs;
  std::vector<std::string> dropped;  // "name: reason"
  std::vector<std::string> only_old, only_new;
  std::optional<int64_t> days_apart;  // by the calendar, between the first rows
};

/// Rows join on model_id, quant, device, test, batch, threads, sequences and engine options. A pair is dropped when
/// host, build type, guard state or prompt ids differ, or, unless allowed, the commit.
BenchComparison compare_benches(std::span<const OrderedJson> old_rows, std::span<const OrderedJson> new_rows,
                                bool allow_commit_change);
std::string bench_comparison_text(const BenchComparison& comparison);
OrderedJson bench_comparison_json(const BenchComparison& comparison);
/// 1 when some test is slower by more than pct percent even at the upper end of its interval, 6 when no test could be
/// judged, else 0.
int bench_comparison_status(const BenchComparison& comparison, std::optional<double> gate_pct);

/// Days from one ISO date ("2026-09-30...") to another; nullopt when one is no date.
std::optional<int64_t> days_between(const std::string& from, const std::string& to);

}  // namespace loft
