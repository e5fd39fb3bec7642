// engine: reductions over one row of logits. They read a row of the vocabulary (up to 262144 values) once, in loops
// that compilers turn into vector code; samplers, logprobs and the measuring tools share them.
#pragma once
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
