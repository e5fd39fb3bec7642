// measure: one quantized product measured by itself, through the same ops/linear that models call. A shape, a format, a
// type, a row of the table enter; times, bandwidth and the error against the slow truth leave.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/options.h"
#include "quant/format.h"

namespace loft {

struct QmmBenchCase {
  int64_t n = 0, k = 0, m = 1;
  QuantFormat format{};
  std::string kernel;      // the row that runs
  std::string route;       // its route
  bool is_chosen = false;  // routing takes this row for this m by itself
};

/// Every row that can run for each shape, format and m, in the order of the table; `which`: "all", a row's or a route's
/// name, or empty for the row that routing takes. Errors: BadRequest for a bad format, an unknown name, a shape that a
/// format's group does not divide; nothing to run.
std::vector<QmmBenchCase> plan_qmm_bench(const Options& options, const std::string& which);

/// What one call reads and writes, and how far off it may be.
struct QmmBenchRun {
  const Options& options;
  int64_t repeats = 5;
  bool is_warm = false;  // one copy of the weight, in the cache; else copies rotate through twice the last-level cache
  double ceiling_gbps = 0;
  const OrderedJson& base;  // keys that all rows share: cpu_info, build, host
  std::function<bool()> stop = {};
};
/// A row of loft.bench.qmm/1 for each case. A wrong result has the status FAIL:wrong.
void run_qmm_bench(const std::vector<QmmBenchCase>& cases, const QmmBenchRun& run,
                   const std::function<void(const OrderedJson&)>& on_row);

std::span<const char* const> qmm_bench_keys();
std::string qmm_md_text(std::span<const OrderedJson> rows);
/// For each shape, format and type the row that was fastest from which m on, as comments for a table of routes.
std::string fit_routes_text(std::span<const OrderedJson> rows, const std::string& command);

}  // namespace loft
