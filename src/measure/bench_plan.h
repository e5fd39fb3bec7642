// measure: what a benchmark will run: tests, and the settings that need a model opened anew. Values of options enter;
// a list in a fixed order leaves. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/options.h"

namespace loft {

/// One test. joint: one pass of a prompt and an answer, both told. n_gen decode steps follow the id that the prompt
/// (or, for a test without one, the last token at depth) gave.
struct BenchTest {
  int64_t n_prompt = 0;
  int64_t n_gen = 0;
  int64_t n_depth = 0;  // tokens in the cache before, not timed
  bool joint = false;
  bool operator==(const BenchTest&) const = default;
  int64_t n_tokens() const { return n_depth + n_prompt + n_gen + (n_depth + n_prompt == 0 ? 1 : 0); }
};
/// "pp512", "tg128 @ d512", "pp512+tg128".
std::string test_name(const BenchTest& test);

/// Everything that is fixed while a model is loaded.
struct BenchGroup {
  std::string model;
  int64_t n_batch = 2048;
  int64_t n_parallel = 1;
  int64_t n_threads = 0;                                      // 0: what the machine allows
  std::vector<std::pair<std::string, std::string>> opt = {};  // values of --opt axes
};

struct BenchPlan {
  std::vector<BenchTest> tests;
  std::vector<BenchGroup> groups;
};

inline constexpr size_t kMaxBenchTests = 10000;

/// The tests in the order pp, tg, pg for each depth. Errors: BadRequest for a bad list, text where a number is wanted
/// (--prompt-file takes text), nothing to run.
std::vector<BenchTest> plan_tests(const Options& options);

/// Every combination of models, batches, sequences, threads and --opt values, models outermost. Errors: BadRequest for
/// a bad list, an unknown --opt name (with the near miss), more than kMaxBenchTests tests in all.
BenchPlan plan_bench(const Options& options, const std::vector<std::string>& models);

}  // namespace loft
