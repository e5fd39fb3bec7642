// engine: reductions over one row of logits. They read a row of the vocabulary (up to 262144 values) once, in loops
// that compilers turn into vector code; samplers, logprobs and the measuring tools share them.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace loft {

/// A token with its logit. Order everywhere: larger logit first, equal logits by smaller id.
struct Candidate {
  int32_t id = 0;
  float logit = 0;
};
inline bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// The index of the first NaN or infinity; nullopt when all values are finite.
std::optional<int64_t> find_non_finite(std::span<const float> row);

/// The first index of the largest value. The row is not empty and holds no NaN.
int64_t argmax(std::span<const float> row);

/// The sum of exp(row[i] - shift) with shift >= every row[i]; relative error below 1e-6, the same at every call.
double sum_exp(std::span<const float> row, float shift);

inline constexpr float kLeastExponent = -87.0f;  // its power is the smallest normal float, too small to count in a sum
/// exp(x), kLeastExponent <= x <= 0, relative error about 2e-7: x = n ln 2 + r, |r| <= ln 2 / 2, a degree-6 polynomial
/// for exp(r).
inline float exp_in_range(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer that stands in the low bits
  const float shifted = x * 1.44269504f + kMagic;
  const float n = shifted - kMagic;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kMagic);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

/// exp(x), x <= 0; at least exp(kLeastExponent).
inline float exp_below_zero(float x) {
  return exp_in_range(x < kLeastExponent ? kLeastExponent : x);
}

/// exp(x) rounded to a multiple of 2^-34: sums of up to 2^18 of them are exact, so they are equal in any order.
inline double rounded_weight(float power) {
  constexpr double kRound = 393216.0;  // 1.5 * 2^18, whose last place is 2^-34
  return (double(power) + kRound) - kRound;
}
inline double exp_weight(float x) {
  return rounded_weight(exp_below_zero(x));
}

/// out[i] = exp_weight((row[i] - shift) / divisor) with shift >= every row[i].
void exp_weights(std::span<const float> row, float shift, float divisor, double* out);

/// The sum of exp_weight(row[i] - shift), exact.
double sum_weights(std::span<const float> row, float shift);

/// The k first candidates of the row (all of them when k >= its size), in order. out is overwritten, its memory reused.
void select_top(std::span<const float> row, int64_t k, std::vector<Candidate>& out);

/// Widens a row of logits in host memory (F32, F16 or BF16) [vocab] to f32.
void widen_logits(const void* row, DType dtype, std::span<float> out);

/// What is told of one token: log of its probability in the model's own distribution, before any sampler.
struct TokenLogprob {
  int32_t id = 0;
  float logit = 0;
  double logprob = 0;
};

/// logprob of `id`, and of the k most probable tokens (top, in order).
struct RowLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};
RowLogprobs row_logprobs(std::span<const float> row, int32_t id, int64_t k);

}  // namespace loft
