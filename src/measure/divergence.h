// measure: how far one run's distributions are from another's over the same tokens, by the whole vocabulary. What
// enters: two models and windows of tokens. What leaves: KL divergence and agreement of the likeliest token.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/perplexity.h"

namespace loft {

struct DivergenceSide {
  Backend& backend;
  Model& model;
  DType kv_dtype = DType::F16;
};

struct Divergence {
  std::vector<float> kl{};  // KL(reference || run) of each position, nats
  int64_t n_same_top = 0;
  LossSums reference{}, run{};
};

/// Feeds both models the windows, block_rows tokens at a time (at most ModelOptions::max_rows and max_logit_rows of
/// both), and adds up. After each window on_window sees the figures so far; false ends the run. Error: NonFinite naming
/// the window.
void run_divergence(const DivergenceSide& reference, const DivergenceSide& run, std::span<const ForcedSequence> windows,
                    int64_t block_rows, Divergence& out, const std::function<bool()>& on_window);

/// KL(reference || run) of two rows of logits [vocab_size], nats, in f64.
double row_divergence(std::span<const float> reference, std::span<const float> run);

/// "KL 1.2e-06 +/- 3.1e-08 p50 .. p99 .. max ..; same top token 4079 / 4080 (99.975 %); reference ppl ..., ppl change
/// .."
std::string divergence_line(const Divergence& divergence);
OrderedJson divergence_json(const Divergence& divergence);

}  // namespace loft
