// engine: the samplers, each a small function over one row or over its sorted candidates.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "engine/random.h"

namespace loft {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// One setting of SamplerParams, its allowed range, and the words of the message.
struct RangeRow {
  const char* name;
  double SamplerParams::*value;
  double lo, hi;
};
constexpr RangeRow kRanges[] = {
    {"temperature", &SamplerParams::temperature, 0, 100},
    {"top_p", &SamplerParams::top_p, 0, 1},
    {"min_p", &SamplerParams::min_p, 0, 1},
    {"xtc_probability", &SamplerParams::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplerParams::xtc_threshold, 0, 1},
    {"repetition_penalty", &SamplerParams::repetition_penalty, 0, 100},
    {"presence_penalty", &SamplerParams::presence_penalty, -100, 100},
    {"frequency_penalty", &SamplerParams::frequency_penalty, -100, 100},
};

/// The draws of one token; each has its own counter of the random stream.
enum Draw : uint32_t { kDrawToken = 0, kDrawXtc = 1 };

std::span<const int32_t> last_tokens(std::span<const int32_t> tokens, int64_t window) {
  if (window < 0 || size_t(window) >= tokens.size()) return tokens;
  return tokens.subspan(tokens.size() - size_t(window));
}

void apply_repetition(double penalty, std::span<const int32_t> tokens, std::span<float> row) {
  if (penalty == 0 || penalty == 1) return;
  std::vector<int32_t> ids(tokens.begin(), tokens.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (int32_t id : ids) {
    float& logit = row[size_t(id)];
    logit = float(logit > 0 ? logit / penalty : logit * penalty);
  }
}

void apply_presence_and_frequency(const SamplerParams& params, std::span<const int32_t> answer, std::span<float> row) {
  if (params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  std::vector<int32_t> ids(answer.begin(), answer.end());
  std::sort(ids.begin(), ids.end());
  for (size_t begin = 0; begin < ids.size();) {
    size_t end = begin;
    while (end < ids.size() && ids[end] == ids[begin]) ++end;
    row[size_t(ids[begin])] -= float(params.presence_penalty + double(end - begin) * params.frequency_penalty);
    begin = end;
  }
}

struct Cut {
  size_t kept = 0;
  bool is_final = false;  // false: candidates further down might still belong in
};

/// How many of the sorted candidates top-p and min-p keep, at least one. total: the sum of exp_weight(logit - largest)
/// that probabilities refer to.
Cut cut_candidates(const SamplerParams& params, std::span<const Candidate> sorted, double total) {
  double mass = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const float below = sorted[i].logit - sorted[0].logit;
    if (i > 0 && (double(exp_below_zero(below)) < params.min_p || below == kMinusInfinity)) return {i, true};
    mass += exp_weight(below);
    if (params.top_p < 1 && mass >= params.top_p * total) return {i + 1, true};
  }
  return {sorted.size(), false};
}

/// Whether step 5 alone decides what is left, so that nobody needs the candidates themselves.
bool is_top_p_alone(const SamplerParams& params) {
  return params.top_k == 0 && params.min_p == 0 && params.xtc_probability == 0 && params.top_p < 1;
}

/// Steps 4 to 6: the candidates that are left, sorted; false when top-p alone keeps so many that draw_from_row should
/// find the token.
bool keep_candidates(const SamplerParams& params, std::span<const float> row, std::vector<Candidate>& candidates) {
  if (params.top_k > 0) {
    select_top(row, params.top_k, candidates);
    double total = 0;
    for (const Candidate& c : candidates) total += exp_weight(c.logit - candidates[0].logit);
    candidates.resize(cut_candidates(params, candidates, total).kept);
    return true;
  }
  // Without top-k the cut is looked for among the first candidates, then among eight times as many, and so on.
  double total = 0;
  for (int64_t k = 256;; k *= 8) {
    select_top(row, k, candidates);
    if (total == 0 && params.top_p < 1) total = sum_weights(row, candidates[0].logit);
    const Cut cut = cut_candidates(params, candidates, total);
    if (!cut.is_final && candidates.size() < row.size()) {
      if (is_top_p_alone(params)) return false;
      continue;
    }
    candidates.resize(cut.kept);
    return true;
  }
}

/// A temperature as the divisor of a logit's distance.
float divisor(double temperature) {
  return std::max(float(temperature), std::numeric_limits<float>::min());
}

/// Steps 5, 8 and 9 without the candidates: sums of weights are exact, so the token is that of the sorted row.
int32_t draw_from_row(const SamplerParams& params, std::span<const float> row, float top, double draw,
                      SelectScratch& scratch) {
  const WeightedRow all(row, top, 1.0f, std::nullopt, scratch);
  const Candidate last = all.find(params.top_p * all.total(), false);
  const WeightedRow kept(row, top, divisor(params.temperature), last, scratch);
  return kept.find(draw * kept.total(), true).id;
}

/// Step 7, "exclude top choices": of the tokens with at least the threshold's probability only the least probable
/// stays.
void apply_xtc(const SamplerParams& params, double draw, std::vector<Candidate>& sorted) {
  if (params.xtc_probability <= 0 || params.xtc_threshold > 0.5 || draw >= params.xtc_probability) return;
  double total = 0;
  for (const Candidate& c : sorted) total += std::exp(double(c.logit) - double(sorted[0].logit));
  size_t n_above = 0;
  while (n_above < sorted.size() &&
         std::exp(double(sorted[n_above].logit) - double(sorted[0].logit)) >= params.xtc_threshold * total) {
    ++n_above;
  }
  if (n_above >= 2) sorted.erase(sorted.begin(), sorted.begin() + int64_t(n_above - 1));
}

/// Steps 8 and 9 over weights[i] = exp_weight((logit - largest) / temperature): the index on which the draw falls.
size_t draw_index(std::span<const double> weights, double draw) {
  double total = 0;
  for (double w : weights) total += w;
  const double target = draw * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    sum += weights[i];
    last = i;
    if (target < sum) return i;
  }
  return last;  // rounding left the target at the very end
}

}  // namespace

void check_sampler_params(const SamplerParams& params, int64_t vocab_size) {
  for (const RangeRow& r : kRanges) {
    const double v = params.*r.value;
    if (!(v >= r.lo && v <= r.hi))
      fail(Code::BadRequest, "{} must be between {} and {}, got {}", r.name, r.lo, r.hi, v);
  }
  if (params.top_k < 0) fail(Code::BadRequest, "top_k must be 0 (off) or more, got {}", params.top_k);
  if (params.penalty_window < -1) {
    fail(Code::BadRequest, "the penalty window must be -1 (all tokens) or more, got {}", params.penalty_window);
  }
  for (const LogitBias& b : params.logit_bias) {
    if (b.id < 0 || b.id >= vocab_size) {
      fail(Code::BadRequest, "logit_bias: token id {} is outside the vocabulary of {} ids", b.id, vocab_size);
    }
    if (!(b.bias >= -100 && b.bias <= 100)) {
      fail(Code::BadRequest, "logit_bias of token {} must be between -100 and 100, got {}", b.id, b.bias);
    }
  }
}

int32_t sample_token(const SamplerParams& params, const SamplerHistory& history, std::span<float> row,
                     SamplerScratch& scratch) {
  for (const LogitBias& b : params.logit_bias) row[size_t(b.id)] += b.bias;
  for (int32_t id : history.banned) row[size_t(id)] = kMinusInfinity;
  const auto answer = history.tokens.subspan(size_t(history.n_prompt));
  apply_repetition(params.repetition_penalty, last_tokens(history.tokens, params.penalty_window), row);
  apply_presence_and_frequency(params, last_tokens(answer, params.penalty_window), row);
  if (params.temperature == 0) return int32_t(argmax(row));

  const uint64_t index = answer.size();
  const double draw = uniform_draw(params.seed, index, kDrawToken);
  const bool filters = params.top_k > 0 || params.top_p < 1 || params.min_p > 0 || params.xtc_probability > 0;
  std::vector<double>& weights = scratch.weights;
  const float temperature = divisor(params.temperature);
  if (!filters) {
    const float largest = row[size_t(argmax(row))];
    weights.resize(row.size());
    exp_weights(row, largest, temperature, weights.data());
    return int32_t(draw_index(weights, draw));
  }
  std::vector<Candidate>& kept = scratch.candidates;
  if (!keep_candidates(params, row, kept)) return draw_from_row(params, row, kept[0].logit, draw, scratch.select);
  apply_xtc(params, uniform_draw(params.seed, index, kDrawXtc), kept);
  weights.resize(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    weights[i] = exp_weight((kept[i].logit - kept[0].logit) / temperature);
  }
  return kept[draw_index(weights, draw)].id;
}

}  // namespace loft
