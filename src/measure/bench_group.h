// measure: measures the tests of one group in this process: asks for the memory, loads once, runs each test, and hands
// every row over as soon as it is there.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/options.h"
#include "measure/bench_plan.h"
#include "measure/bench_run.h"

namespace loft {

struct BenchGroupRun {
  std::filesystem::path folder{};
  const Options& options;  // of the engine, and the bench's own
  BenchGroup group{};
  std::vector<BenchTest> tests{};
  size_t n_skip = 0;  // tests that were measured elsewhere
  BenchRunOptions run{};
  const OrderedJson& build;         // {version, commit, dirty, type, compiler, flags, backends}
  const OrderedJson& options_json;  // [{name, value, source}]
  std::string prompt_text = {};     // empty: the built-in one
};

/// Calls on_row for each test from n_skip on. Statuses: ok; SKIP:oom_estimate for all tests when --mem-fraction of what
/// is there is less than what they need (nothing is loaded then); SKIP:oom when loading or a test runs out; FAIL:bench
/// and FAIL:nonfinite for a test. next_round, where given, is asked after loading and after each round of all tests;
/// another round is run while it says so. Errors of the checkpoint itself are thrown.
void run_bench_group(const BenchGroupRun& run, const std::function<void(const OrderedJson&)>& on_row,
                     const std::function<bool()>& next_round = {});

}  // namespace loft
