#include "measure/bench_run.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace loft {
namespace {

using Clock = std::chrono::steady_clock;
int64_t ns_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(b - a).count();
}

MemoryPhase read_phase(Backend& backend) {
  backend.synchronize();
  return grown({}, backend.memory());
}

/// The sequences of a test and the memory of their steps, kept over all passes so that no pass pays for it.
class Runner {
 public:
  Runner(BenchModel& model, const BenchTest& test, std::span<const int32_t> ids)
      : model_(model), test_(test), ids_(ids), vocab_(model.parts.model->config().vocab_size) {
    const int64_t tokens = test.n_tokens();
    const KvCacheShape shape = model.parts.model->kv_shape(model.kv, tokens, std::min(model.sizes.n_batch, tokens));
    for (int64_t i = 0; i < model.sizes.n_parallel; ++i) {
      caches_.push_back(std::make_unique<KvCache>(*model.parts.backend, shape));
      histories_.emplace_back();
      histories_.back().reserve(size_t(tokens) + 1);
    }
    row_.resize(size_t(vocab_));
  }

  /// Empty caches, then the tokens at depth. Nothing of it is timed.
  void begin_pass() {
    const int64_t depth = test_.n_depth;
    const bool keeps = std::all_of(caches_.begin(), caches_.end(), [&](const auto& cache) {
      return depth > 0 && cache->n_tokens() >= depth && cache->can_truncate(depth);
    });
    if (keeps) {
      for (auto& cache : caches_) cache->truncate(depth);
      histories_ = at_depth_;
      return;
    }
    for (auto& cache : caches_) cache->clear();
    // Without a prompt the first decode step reads the id that the depth gave, or the first id where there is none.
    for (auto& history : histories_) history.assign(1, ids_[0]);
    if (depth > 0) prefill(0, depth);
    at_depth_ = histories_;
  }

  /// Reads ids [begin, end) into every sequence, one after the other, and samples an id for each.
  void prefill(int64_t begin, int64_t end) {
    for (size_t i = 0; i < caches_.size(); ++i) {
      std::vector<int32_t>& history = histories_[i];
      history.assign(ids_.begin(), ids_.begin() + end);
      Tensor logits;
      int32_t last_row = 0;
      for (int64_t first = begin; first < end; first += model_.sizes.n_batch) {
        const int64_t m = std::min(model_.sizes.n_batch, end - first);
        last_row = int32_t(m - 1);
        const BatchSequence sequence{.cache = caches_[i].get(), .first_row = 0, .n_rows = m};
        const bool is_last = first + m == end;
        logits = model_.parts.model->forward(
            {.tokens = ids_.subspan(size_t(first), size_t(m)),
             .sequences = {&sequence, 1},
             .logit_rows = is_last ? std::span<const int32_t>(&last_row, 1) : std::span<const int32_t>()});
        ++n_forwards_;
      }
      history.push_back(sample(history, logits, 0));
    }
  }

  /// n steps: each feeds the last id of every sequence and samples the next.
  void decode(int64_t n) {
    const size_t np = caches_.size();
    std::vector<int32_t> tokens(np), rows(np);
    std::vector<BatchSequence> sequences(np);
    for (int64_t step = 0; step < n; ++step) {
      for (size_t i = 0; i < np; ++i) {
        tokens[i] = histories_[i].back();
        rows[i] = int32_t(i);
        sequences[i] = {.cache = caches_[i].get(), .first_row = int64_t(i), .n_rows = 1};
      }
      const Tensor logits = model_.parts.model->forward({.tokens = tokens, .sequences = sequences, .logit_rows = rows});
      ++n_forwards_;
      for (size_t i = 0; i < np; ++i) histories_[i].push_back(sample(histories_[i], logits, int64_t(i)));
    }
  }

  int64_t n_forwards() const { return n_forwards_; }
  const std::vector<int32_t>& first_history() const { return histories_[0]; }

 private:
  int32_t sample(std::span<const int32_t> history, const Tensor& logits, int64_t i_row) {
    const Tensor source = slice_rows(logits, i_row, i_row + 1);
    raw_row_.resize(size_t(vocab_) * dtype_bytes(logits.dtype));
    model_.parts.backend->download(raw_row_.data(), source.data, raw_row_.size());
    widen_logits(raw_row_.data(), logits.dtype, row_);
    if (const auto bad = find_non_finite(row_)) {
      fail(Code::NonFinite, "the logit of token {} at position {} is {}, wanted a finite number", *bad,
           history.size() - 1, row_[size_t(*bad)]);
    }
    return sample_token(model_.sampling, {.tokens = history, .n_prompt = test_.n_depth + test_.n_prompt, .banned = {}},
                        row_, scratch_);
  }

  BenchModel& model_;
  const BenchTest& test_;
  std::span<const int32_t> ids_;
  int64_t vocab_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<std::vector<int32_t>> histories_;  // ids fed so far and the one to feed next
  std::vector<std::vector<int32_t>> at_depth_;   // the same, where a pass begins
  std::vector<uint8_t> raw_row_;
  std::vector<float> row_;
  SamplerScratch scratch_;
  int64_t n_forwards_ = 0;
};

BackendCounters counted_since(const BackendCounters& after, const BackendCounters& before) {
  return {.allocations = after.allocations - before.allocations,
          .allocated_bytes = after.allocated_bytes - before.allocated_bytes,
          .copies = after.copies - before.copies,
          .copied_bytes = after.copied_bytes - before.copied_bytes,
          .launches = after.launches - before.launches};
}

enum class PassKind : uint8_t { Discarded, Measured, Kernels };

BenchPass run_pass(BenchModel& model, const BenchTest& test, Runner& runner, int64_t n_gen,
                   const BenchRunOptions& options, PassKind kind) {
  const auto mark = [&](const char* phase) {
    if (kind == PassKind::Measured && options.on_phase) options.on_phase(phase);
  };
  runner.begin_pass();
  model.parts.backend->synchronize();
  mark("measured_start");
  const QmmStats before = model.parts.model->qmm_stats();
  const BackendCounters counters_before = model.parts.backend->counters();
  const int64_t forwards_before = runner.n_forwards();
  if (kind == PassKind::Kernels) model.timer->start();
  BenchPass pass;
  const auto t0 = Clock::now();
  if (test.n_prompt > 0) runner.prefill(test.n_depth, test.n_depth + test.n_prompt);
  const auto t1 = Clock::now();
  mark("decode_start");
  const auto t2 = Clock::now();
  runner.decode(n_gen);
  const auto t3 = Clock::now();
  mark("measured_end");
  pass.pp_ns = ns_between(t0, t1);
  pass.tg_ns = ns_between(t2, t3);
  pass.n_forwards = runner.n_forwards() - forwards_before;
  pass.qmm = counted_since(model.parts.model->qmm_stats(), before);
  pass.counters = counted_since(model.parts.backend->counters(), counters_before);
  return pass;
}

template <class Ns>
std::vector<double> rates(const BenchResult& result, int64_t n_tokens, const Ns& ns_of) {
  std::vector<double> out;
  for (const BenchPass& p : result.passes) {
    const int64_t ns = ns_of(p);
    if (n_tokens > 0 && ns > 0) out.push_back(1e9 * double(n_tokens) / double(ns));
  }
  return out;
}

}  // namespace

std::vector<double> pp_rates(const BenchResult& r, const BenchTest& t, int64_t n_parallel) {
  return rates(r, t.n_prompt * n_parallel, [](const BenchPass& p) { return p.pp_ns; });
}
std::vector<double> tg_rates(const BenchResult& r, const BenchTest& t, int64_t n_parallel) {
  return rates(r, t.n_gen * n_parallel, [](const BenchPass& p) { return p.tg_ns; });
}
std::vector<double> pass_rates(const BenchResult& r, const BenchTest& t, int64_t n_parallel) {
  return rates(r, (t.n_prompt + t.n_gen) * n_parallel, [](const BenchPass& p) { return p.pp_ns + p.tg_ns; });
}

BenchResult run_bench_test(BenchModel& model, const BenchTest& test, std::span<const int32_t> ids,
                           const BenchRunOptions& options) {
  LOFT_CHECK(int64_t(ids.size()) >= std::max<int64_t>(1, test.n_depth + test.n_prompt));
  LOFT_CHECK(test.n_tokens() <= model.sizes.max_tokens && options.repeats >= 1);
  Backend& backend = *model.parts.backend;
  BenchResult result;
  const QmmStats start = model.parts.model->qmm_stats();
  const BackendCounters counters_start = backend.counters();
  backend.reset_peak();
  Runner runner(model, test, ids);
  if (options.has_warmup) {
    if (options.on_phase) options.on_phase("warmup_start");
    run_pass(model, test, runner, std::min(options.warmup_tokens, test.n_gen), options, PassKind::Discarded);
  }
  result.qmm_warmup = counted_since(model.parts.model->qmm_stats(), start);
  result.counters_warmup = counted_since(backend.counters(), counters_start);
  result.warmup = read_phase(backend);
  backend.reset_peak();
  for (int64_t i = 0; i < options.repeats; ++i) {
    result.passes.push_back(run_pass(model, test, runner, test.n_gen, options, PassKind::Measured));
  }
  result.measured = read_phase(backend);
  result.qmm_total = counted_since(model.parts.model->qmm_stats(), start);
  result.last_ids.assign(runner.first_history().begin(), runner.first_history().end());
  if (model.timer) {
    const BenchPass pass = run_pass(model, test, runner, test.n_gen, options, PassKind::Kernels);
    result.kernels = KernelPass{.ns = double(pass.pp_ns + pass.tg_ns), .times = model.timer->stop()};
  }
  return result;
}

}  // namespace loft
