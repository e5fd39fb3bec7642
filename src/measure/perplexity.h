// measure: perplexity of a model on a text, by four definitions that are in use. What enters: tokens or windows. What
// leaves: the mean loss in nats with two standard errors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/teacher_forced.h"
#include "measure/trace_file.h"

namespace loft {

/// Mlx: disjoint windows of L tokens, L - 1 targets each (mlx_lm.perplexity). Chunk: L targets each, the last one being
/// the first token of the next, the begin token before each but the first (the published tool). Llama: disjoint windows
/// whose first token gives way to the begin token, the second half scored (llama-perplexity). Stride: a window that
/// moves by N, its last N targets scored.
enum class PerplexityMode : uint8_t { Mlx, Chunk, Llama, Stride };
std::optional<PerplexityMode> perplexity_mode_from_name(std::string_view name);

/// Chunk, Llama and Stride count tokens with special ones; Mlx without.
bool wants_special_tokens(PerplexityMode mode);

struct WindowPlan {
  PerplexityMode mode = PerplexityMode::Mlx;
  int64_t length = 512;       // L, at least 2
  int64_t max_windows = 256;  // -1: all
  int64_t stride = 256;       // N, at most L; Stride only
};

/// The windows of a text, its tail dropped. bos: what the tokenizer puts before a text, where it does. Error: Corrupt
/// "text too short" with both numbers.
std::vector<ForcedSequence> plan_windows(const WindowPlan& plan, std::span<const int32_t> ids,
                                         std::optional<int32_t> bos);

/// Windows given as ids, one JSON array a line; Mlx or Llama say which targets count. Errors: NotFound; Corrupt
/// "file:line: found .., wanted .." (no array of ids, fewer than two, an id outside the vocabulary, no line).
std::vector<ForcedSequence> read_windows(const std::filesystem::path& path, PerplexityMode mode, int64_t vocab_size);

/// Sums over the losses of all windows, in token order.
class LossSums {
 public:
  void add_window(std::span<const float> losses);
  int64_t n_windows() const { return int64_t(windows_.size()); }
  int64_t n_tokens() const { return n_; }
  double mean() const;  // nats
  double ppl() const;
  /// Standard error of ppl() with tokens as units: ppl * sd / sqrt(n), sd with n - 1. nullopt for one token.
  std::optional<double> token_error() const;
  /// The same with windows as units, since tokens of one window are correlated. nullopt for one window.
  std::optional<double> window_error() const;
  /// Mean loss of each window.
  std::vector<double> window_means() const;

 private:
  struct Window {
    double sum = 0;
    int64_t n = 0;
  };
  std::vector<Window> windows_;
  double sum_ = 0, squares_ = 0;
  int64_t n_ = 0;
};

struct PerplexityJob {
  Backend& backend;
  Model& model;
  DType kv_dtype = DType::F16;
  std::span<const ForcedSequence> windows{};
  int64_t batch = 8;  // windows in one pass
};

/// Runs the windows. After each pass on_pass sees the sums so far; false ends the run. Returns rows (M) of each pass.
/// Error: NonFinite naming the window.
std::vector<int64_t> score_windows(const PerplexityJob& job, LossSums& sums, const std::function<bool()>& on_pass);

/// A trace's own losses, its chunks as windows.
LossSums trace_losses(const TraceFile& trace);

/// "mlx L=512 windows=256 tokens=130816 ppl=6.4123 +/- 0.0310 (tokens) +/- 0.0450 (windows) nll=1.858218"
std::string perplexity_line(std::string_view mode, std::string_view length, const LossSums& sums);
/// The figures of that line as JSON members.
OrderedJson perplexity_json(const LossSums& sums);

}  // namespace loft
