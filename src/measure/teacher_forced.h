// measure: teacher-forced forward passes, which trace and perplexity share. What enters: sequences of known tokens.
// What leaves: the logits of each scored row, and which kernels ran. Every sequence starts on a fresh state.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/options.h"
#include "model/model.h"

namespace loft {

/// Tokens of one sequence. The last id is a target only; row r of the input predicts ids[r + 1].
struct ForcedSequence {
  std::vector<int32_t> context{};  // fed before, in a pass of its own, for its keys and values
  std::vector<int32_t> ids{};      // two or more
  int64_t first_row = 0;           // rows [first_row, n_rows()) are scored
  int64_t n_rows() const { return int64_t(ids.size()) - 1; }
  int64_t n_scored() const { return n_rows() - first_row; }
};

/// One forward pass as it ran.
struct ForcedPass {
  bool is_context = false;
  int64_t rows = 0;                           // M
  int64_t past = 0;                           // tokens in the cache before, all sequences
  std::map<std::string, uint64_t> routes{};   // products by route, zero counts left out
  std::map<std::string, uint64_t> kernels{};  // products by kernel row
};

/// logits [vocab_size] of row `row` of sequence i, widened to f32; valid during the call. In order of sequences and
/// rows.
using ForcedRowFn = std::function<void(int64_t i, int64_t row, std::span<const float> logits)>;

/// Rows of lm_head at a time: at most 64 MiB of f32 logits, a multiple of 64 rows, at least 64.
int64_t logit_block_rows(int64_t vocab_size);

/// What passes over these sequences need of a model, `batch` of them in each pass.
struct ForcedNeeds {
  int64_t max_rows = 1;    // of one pass
  int64_t max_tokens = 1;  // of one sequence, context included
  int64_t max_chunk = 1;   // rows of one sequence in one pass
  int64_t n_sequences = 1;
};
ForcedNeeds forced_needs(std::span<const ForcedSequence> sequences, int64_t batch);
ForcedNeeds largest(const ForcedNeeds& a, const ForcedNeeds& b);

/// Model options for these needs under the option table.
ModelOptions forced_model_options(const Options& options, const ForcedNeeds& needs, int64_t vocab_size);

/// Runs the sequences together: one pass for their contexts, where there are any, then one for their input. lm_head
/// runs on scored rows only, in blocks of ModelOptions::max_logit_rows. Returns the passes. Errors: BadRequest for a
/// token outside the vocabulary; what `on_row` throws.
std::vector<ForcedPass> forced_forward(Backend& backend, Model& model, DType kv_dtype,
                                       std::span<const ForcedSequence> sequences, const ForcedRowFn& on_row);

/// Where a sequence first meets a value that is not finite: "the embedding", "layer 3" (its output) or "the head".
std::string first_non_finite(Backend& backend, Model& model, DType kv_dtype, const ForcedSequence& sequence);

}  // namespace loft
