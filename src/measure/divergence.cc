#include "measure/divergence.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine/logits.h"

namespace loft {
namespace {

struct KlFigures {
  double mean = 0, error = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

KlFigures figures_of(const std::vector<float>& kl) {
  KlFigures f;
  const double n = double(kl.size());
  if (kl.empty()) return f;
  for (const float x : kl) f.mean += double(x) / n;
  double squares = 0;
  for (const float x : kl) squares += (double(x) - f.mean) * (double(x) - f.mean);
  if (kl.size() > 1) f.error = std::sqrt(squares / (n - 1) / n);
  std::vector<float> sorted = kl;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double p) { return double(sorted[std::min(size_t(p * n), sorted.size() - 1)]); };
  f.p50 = at(0.5);
  f.p90 = at(0.9);
  f.p99 = at(0.99);
  f.max = double(sorted.back());
  return f;
}

double log_sum_exp(std::span<const float> row) {
  const double m = double(row[size_t(argmax(row))]);
  double sum = 0;
  for (const float x : row) sum += std::exp(double(x) - m);
  return m + std::log(sum);
}

/// One model's way through a window.
struct Walk {
  const DivergenceSide& side;
  KvCache cache;
  std::vector<uint8_t> raw{};
  std::vector<float> row{};
  Tensor logits{};

  Walk(const DivergenceSide& side_, int64_t n_tokens, int64_t block)
      : side(side_), cache(side.backend, side.model.kv_shape(side.kv_dtype, n_tokens, std::min(block, n_tokens))) {}

  void feed(std::span<const int32_t> tokens, std::span<const int32_t> logit_rows) {
    const BatchSequence part{.cache = &cache, .first_row = 0, .n_rows = int64_t(tokens.size())};
    logits = side.model.forward({.tokens = tokens, .sequences = {&part, 1}, .logit_rows = logit_rows});
    raw.resize(size_t(logits.dim(1)) * dtype_bytes(logits.dtype));
    row.resize(size_t(logits.dim(1)));
  }
  const std::vector<float>& logits_of(int64_t r, size_t window) {
    side.backend.download(raw.data(), slice_rows(logits, r, r + 1).data, raw.size());
    widen_logits(raw.data(), logits.dtype, row);
    if (find_non_finite(row)) fail(Code::NonFinite, "window {}: a logit is not finite", window);
    return row;
  }
};

void add_window(Walk& reference, Walk& run, const ForcedSequence& s, size_t window, int64_t block, Divergence& out) {
  std::vector<float> reference_losses, run_losses;
  for (int64_t first = 0; first < s.n_rows(); first += block) {
    const int64_t m = std::min(block, s.n_rows() - first);
    std::vector<int32_t> rows;
    for (int64_t r = 0; r < m; ++r) {
      if (first + r >= s.first_row) rows.push_back(int32_t(r));
    }
    const auto tokens = std::span(s.ids).subspan(size_t(first), size_t(m));
    reference.feed(tokens, rows);
    run.feed(tokens, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float>& a = reference.logits_of(int64_t(i), window);
      const std::vector<float>& b = run.logits_of(int64_t(i), window);
      const int32_t target = s.ids[size_t(first + rows[i] + 1)];
      reference_losses.push_back(float(-row_logprobs(a, target, 0).chosen.logprob));
      run_losses.push_back(float(-row_logprobs(b, target, 0).chosen.logprob));
      out.kl.push_back(float(row_divergence(a, b)));
      out.n_same_top += argmax(a) == argmax(b);
    }
  }
  out.reference.add_window(reference_losses);
  out.run.add_window(run_losses);
}

}  // namespace

double row_divergence(std::span<const float> reference, std::span<const float> run) {
  const double total_reference = log_sum_exp(reference), total_run = log_sum_exp(run);
  double kl = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = double(reference[i]) - total_reference;
    kl += std::exp(log_p) * (log_p - (double(run[i]) - total_run));
  }
  return std::max(kl, 0.0);
}

void run_divergence(const DivergenceSide& reference, const DivergenceSide& run, std::span<const ForcedSequence> windows,
                    int64_t block_rows, Divergence& out, const std::function<bool()>& on_window) {
  for (size_t w = 0; w < windows.size(); ++w) {
    const ForcedSequence& s = windows[w];
    LOFT_CHECK(s.context.empty());
    Walk a(reference, s.n_rows(), block_rows), b(run, s.n_rows(), block_rows);
    add_window(a, b, s, w, block_rows, out);
    if (!on_window()) return;
  }
}

std::string divergence_line(const Divergence& d) {
  const KlFigures f = figures_of(d.kl);
  const int64_t n = int64_t(d.kl.size());
  return fmt::format(
      "KL(reference || run) {:.3e} +/- {:.1e} p50 {:.3e} p90 {:.3e} p99 {:.3e} max {:.3e} nats; same top token {} / {} "
      "({:.3f} %); ppl {:.4f} against {:.4f} ({:+.4f} %)",
      f.mean, f.error, f.p50, f.p90, f.p99, f.max, d.n_same_top, n,
      n > 0 ? 100.0 * double(d.n_same_top) / double(n) : 0, d.run.ppl(), d.reference.ppl(),
      100 * (d.run.ppl() / d.reference.ppl() - 1));
}

OrderedJson divergence_json(const Divergence& d) {
  const KlFigures f = figures_of(d.kl);
  return {
      {"positions", d.kl.size()},
      {"kl", {{"mean", f.mean}, {"error", f.error}, {"p50", f.p50}, {"p90", f.p90}, {"p99", f.p99}, {"max", f.max}}},
      {"same_top", d.n_same_top},
      {"reference", perplexity_json(d.reference)}};
}

}  // namespace loft
