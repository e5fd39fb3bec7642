// engine: which sequences and how many of their tokens go into the next forward pass. Pure: plain numbers enter, a plan
// leaves, so that every policy can be tested without a model.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace loft {

/// What one running sequence has left to feed: tokens known but not in its cache yet.
struct SequenceNeed {
  int64_t n_pending = 0;     // 1 while decoding, more while the prompt is read
  bool is_decoding = false;  // the prompt is done
};

struct StepLimits {
  int64_t max_rows = 2048;             // rows of one forward pass
  int64_t prefill_chunk = 2048;        // rows of prompts in one pass
  int64_t prefill_chunk_shared = 256;  // the same while others decode: a long prompt must not stall their streams
};

/// n_rows tokens of sequence `index` go in; its logits are wanted when they are its last pending ones.
struct PlannedRows {
  size_t index = 0;
  int64_t n_rows = 0;
  bool wants_logits = false;
};

/// Decoding sequences first, one row each; then prompts, oldest first. `needs` is in order of arrival, and so is the
/// plan. Every call makes progress: the plan is empty only when nothing is pending.
void plan_step(std::span<const SequenceNeed> needs, const StepLimits& limits, std::vector<PlannedRows>& plan);

}  // namespace loft
