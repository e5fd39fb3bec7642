#include "measure/perplexity.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"
#include "engine/logits.h"

namespace loft {
namespace {

constexpr std::pair<const char*, PerplexityMode> kModes[] = {{"mlx", PerplexityMode::Mlx},
                                                             {"chunk", PerplexityMode::Chunk},
                                                             {"llama", PerplexityMode::Llama},
                                                             {"stride", PerplexityMode::Stride}};
constexpr size_t kMaxWindowsFile = size_t(1) << 30;

/// Tokens of a text that n windows take, and from one window to the next.
struct Extent {
  int64_t least = 0;  // for one window
  int64_t step = 0;
};

Extent extent_of(const WindowPlan& p) {
  switch (p.mode) {
    case PerplexityMode::Chunk:
      return {.least = p.length + 1, .step = p.length};
    case PerplexityMode::Stride:
      return {.least = p.length, .step = p.stride};
    case PerplexityMode::Mlx:
    case PerplexityMode::Llama:
      break;
  }
  return {.least = p.length, .step = p.length};
}

int64_t first_scored_row(PerplexityMode mode, int64_t length, int64_t stride) {
  switch (mode) {
    case PerplexityMode::Llama:
      return length / 2;
    case PerplexityMode::Stride:
      return std::max<int64_t>(0, length - 1 - stride);
    case PerplexityMode::Mlx:
    case PerplexityMode::Chunk:
      break;
  }
  return 0;
}

OrderedJson optional_json(const std::optional<double>& x) {
  return x && std::isfinite(*x) ? OrderedJson(*x) : OrderedJson(nullptr);
}

std::string error_text(const std::optional<double>& error) {
  return error ? fmt::format("{:.4f}", *error) : "?";
}

ForcedSequence window_of_line(std::string_view line, const std::string& where, PerplexityMode mode,
                              int64_t vocab_size) {
  const Json array = parse_json(line, where);
  if (!array.is_array() || array.size() < 2) fail(Code::Corrupt, "{}: wanted an array of two or more token ids", where);
  ForcedSequence s;
  for (const Json& id : array) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= double(vocab_size)) {
      fail(Code::Corrupt, "{}: found {}, wanted a token id in 0..{}", where, brief(id), vocab_size - 1);
    }
    s.ids.push_back(id.get<int32_t>());
  }
  s.first_row = first_scored_row(mode, int64_t(s.ids.size()), 0);
  if (s.n_scored() < 1) fail(Code::Corrupt, "{}: found {} ids, of which none is scored", where, s.ids.size());
  return s;
}

}  // namespace

std::optional<PerplexityMode> perplexity_mode_from_name(std::string_view name) {
  for (const auto& [known, mode] : kModes) {
    if (name == known) return mode;
  }
  return std::nullopt;
}

bool wants_special_tokens(PerplexityMode mode) {
  return mode != PerplexityMode::Mlx;
}

std::vector<ForcedSequence> plan_windows(const WindowPlan& plan, std::span<const int32_t> ids,
                                         std::optional<int32_t> bos) {
  const Extent extent = extent_of(plan);
  const int64_t n_tokens = int64_t(ids.size());
  const int64_t least = plan.mode == PerplexityMode::Llama ? 2 * plan.length : extent.least;
  if (n_tokens < least) fail(Code::Corrupt, "text too short: {} tokens, wanted at least {}", n_tokens, least);
  int64_t n = (n_tokens - extent.least) / extent.step + 1;
  if (plan.max_windows >= 0) n = std::min(n, plan.max_windows);
  std::vector<ForcedSequence> windows;
  for (int64_t w = 0; w < n; ++w) {
    const auto begin = ids.begin() + w * extent.step;
    ForcedSequence s{.ids = {begin, begin + extent.least},
                     .first_row = first_scored_row(plan.mode, plan.length, plan.stride)};
    if (bos && plan.mode == PerplexityMode::Llama) s.ids[0] = *bos;
    if (bos && plan.mode == PerplexityMode::Chunk && w > 0) {
      s.ids.insert(s.ids.begin(), *bos);
      s.first_row = 1;
    }
    windows.push_back(std::move(s));
  }
  return windows;
}

std::vector<ForcedSequence> read_windows(const std::filesystem::path& path, PerplexityMode mode, int64_t vocab_size) {
  const std::string text = read_text_file(path, kMaxWindowsFile);
  std::vector<ForcedSequence> windows;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    windows.push_back(
        window_of_line(rest.substr(0, end), fmt::format("{}:{}", path.string(), number), mode, vocab_size));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (windows.empty()) fail(Code::Corrupt, "{}: found no line, wanted an array of token ids a line", path.string());
  return windows;
}

void LossSums::add_window(std::span<const float> losses) {
  Window window{.n = int64_t(losses.size())};
  for (const float loss : losses) {
    window.sum += double(loss);
    sum_ += double(loss);
    squares_ += double(loss) * double(loss);
  }
  n_ += window.n;
  windows_.push_back(window);
}

double LossSums::mean() const {
  return n_ > 0 ? sum_ / double(n_) : 0;
}

double LossSums::ppl() const {
  return std::exp(mean());
}

std::optional<double> LossSums::token_error() const {
  if (n_ < 2) return std::nullopt;
  const double variance = squares_ / double(n_) - mean() * mean();  // with n; over n - 1 below
  return ppl() * std::sqrt(std::max(variance, 0.0) / double(n_ - 1));
}

// A ratio of sums, so that windows of unequal size count by their tokens; for equal ones this is sd / sqrt(windows).
std::optional<double> LossSums::window_error() const {
  const double w = double(windows_.size());
  if (windows_.size() < 2) return std::nullopt;
  double squares = 0;
  for (const Window& window : windows_) {
    const double d = window.sum - mean() * double(window.n);
    squares += d * d;
  }
  return ppl() * std::sqrt(squares * w / (w - 1)) / double(n_);
}

std::vector<double> LossSums::window_means() const {
  std::vector<double> out;
  for (const Window& window : windows_) out.push_back(window.sum / double(window.n));
  return out;
}

std::vector<int64_t> score_windows(const PerplexityJob& job, LossSums& sums, const std::function<bool()>& on_pass) {
  std::vector<int64_t> rows;
  for (size_t first = 0; first < job.windows.size(); first += size_t(job.batch)) {
    const auto group = job.windows.subspan(first, std::min(size_t(job.batch), job.windows.size() - first));
    std::vector<std::vector<float>> losses(group.size());
    const ForcedRowFn on_row = [&](int64_t i, int64_t row, std::span<const float> logits) {
      const ForcedSequence& s = group[size_t(i)];
      if (find_non_finite(logits)) fail(Code::NonFinite, "window {}: a logit is not finite", first + size_t(i));
      losses[size_t(i)].push_back(float(-row_logprobs(logits, s.ids[size_t(row + 1)], 0).chosen.logprob));
    };
    for (const ForcedPass& pass : forced_forward(job.backend, job.model, job.kv_dtype, group, on_row)) {
      rows.push_back(pass.rows);
    }
    for (const std::vector<float>& window : losses) sums.add_window(window);
    if (!on_pass()) break;
  }
  return rows;
}

LossSums trace_losses(const TraceFile& trace) {
  LossSums sums;
  std::vector<float> window;
  for (size_t i = 0; i < trace.rows.size(); ++i) {
    if (i > 0 && trace.rows[i].chunk != trace.rows[i - 1].chunk) {
      sums.add_window(window);
      window.clear();
    }
    window.push_back(float(trace.rows[i].nll));
  }
  sums.add_window(window);
  return sums;
}

std::string perplexity_line(std::string_view mode, std::string_view length, const LossSums& sums) {
  return fmt::format("{} L={} windows={} tokens={} ppl={:.4f} +/- {} (tokens) +/- {} (windows) nll={:.6f}", mode,
                     length, sums.n_windows(), sums.n_tokens(), sums.ppl(), error_text(sums.token_error()),
                     error_text(sums.window_error()), sums.mean());
}

OrderedJson perplexity_json(const LossSums& sums) {
  return {{"windows", sums.n_windows()},
          {"tokens", sums.n_tokens()},
          {"nll", sums.mean()},
          {"ppl", optional_json(sums.ppl())},
          {"token_error", optional_json(sums.token_error())},
          {"window_error", optional_json(sums.window_error())},
          {"window_nll", sums.window_means()}};
}

}  // namespace loft
