// measure: measures one test on an opened model: a discarded pass, then timed ones. What enters: a model, a test, ids.
// What leaves: every sample, memory by phase, and what the routes and the cache did.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/op_timer.h"
#include "measure/bench_model.h"
#include "measure/bench_plan.h"
#include "qmm/stats.h"

namespace loft {

struct BenchRunOptions {
  int64_t repeats = 5;
  bool has_warmup = true;
  int64_t warmup_tokens = 20;  // decode steps of the discarded pass, at most those of the test
  // Called at warmup_start, measured_start, decode_start, measured_end: for tracers outside.
  std::function<void(const char* phase)> on_phase = {};
};

/// Times of one pass. pp: from the ids being ready to the first sampled ids on the host; tg: from there to the last.
struct BenchPass {
  int64_t pp_ns = 0;
  int64_t tg_ns = 0;
  int64_t n_forwards = 0;
  QmmStats qmm{};  // of this pass alone
  BackendCounters counters{};
};

/// Where the time of one further pass went; it is none of the measured ones.
struct KernelPass {
  double ns = 0;  // of the pass
  std::vector<OpTime> times{};
};

struct BenchResult {
  std::vector<BenchPass> passes{};
  MemoryPhase warmup{}, measured{};
  QmmStats qmm_warmup{};                // of the discarded pass alone
  QmmStats qmm_total{};                 // of all passes, the discarded one included
  BackendCounters counters_warmup{};    // of the discarded pass and of what all passes share
  std::optional<KernelPass> kernels{};  // for a model opened with --kernels
  std::vector<int32_t> last_ids{};      // the ids of the last pass's first sequence: equal for equal arithmetic
};

/// Tokens a second of each pass: the prompt's, the answer's, and those of the pass as a whole.
std::vector<double> pp_rates(const BenchResult& result, const BenchTest& test, int64_t n_parallel);
std::vector<double> tg_rates(const BenchResult& result, const BenchTest& test, int64_t n_parallel);
std::vector<double> pass_rates(const BenchResult& result, const BenchTest& test, int64_t n_parallel);

/// ids [n_depth + n_prompt, at least 1]: the prompt of every sequence. Errors: those of a forward; NonFinite naming
/// the token, OutOfMemory.
BenchResult run_bench_test(BenchModel& model, const BenchTest& test, std::span<const int32_t> ids,
                           const BenchRunOptions& options);

}  // namespace loft
