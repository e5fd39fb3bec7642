// engine: logits -> token. One row enters with the settings and the history of its own sequence, one id leaves. Nothing
// here sees a second row, so a batch cannot change what a request gets.
//
// Order of the samplers, the same for every route:
//   1. logit bias   2. ids without a piece are taken out   3. repetition, presence and frequency penalties
//   4. top-k   5. top-p   6. min-p   7. XTC   8. temperature   9. one draw
// Temperature comes last: it does not change which tokens top-p and min-p keep. Temperature 0 is greedy: after step 3
// the largest logit wins, the smaller id among equals.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/weighted_select.h"

namespace loft {

struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

/// The fixed defaults hold where a checkpoint's generation_config.json says nothing about sampling.
struct SamplerParams {
  double temperature = 0.8;       // 0: greedy
  int64_t top_k = 40;             // 0: off
  double top_p = 0.95;            // 1: off
  double min_p = 0.05;            // 0: off; keeps tokens of at least min_p times the largest probability
  double xtc_probability = 0;     // chance that XTC acts on a token; 0: off
  double xtc_threshold = 0.1;     // XTC drops all tokens this probable but the last of them; above 0.5: off
  double repetition_penalty = 1;  // HF's rule on tokens of prompt and answer; 0 and 1: off
  double presence_penalty = 0;    // subtracted once from tokens of the answer so far
  double frequency_penalty = 0;   // subtracted per occurrence in the answer so far
  int64_t penalty_window = 64;    // penalties look at this many last tokens; -1: at all
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;
};

/// Error: BadRequest for a value out of range (names it, found, wanted) or a bias for an id outside [0, vocab_size).
void check_sampler_params(const SamplerParams& params, int64_t vocab_size);

/// tokens: prompt and answer so far; the answer begins at n_prompt. banned: ids that have no piece.
struct SamplerHistory {
  std::span<const int32_t> tokens;
  int64_t n_prompt = 0;
  std::span<const int32_t> banned;
};

/// Memory that a caller keeps between calls; it carries no state from one call to the next.
struct SamplerScratch {
  std::vector<Candidate> candidates;
  std::vector<double> weights;
  SelectScratch select;
};

/// Draws the next token from `row` [vocab_size], which is overwritten. All values are finite on entry. The draw is that
/// of (seed, number of the answer's token), so the same request gives the same tokens in any batch.
int32_t sample_token(const SamplerParams& params, const SamplerHistory& history, std::span<float> row,
                     SamplerScratch& scratch);

}  // namespace loft
