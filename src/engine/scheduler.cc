// engine: the plan of one step.
#include "engine/scheduler.h"

#include <algorithm>

namespace loft {

void plan_step(std::span<const SequenceNeed> needs, const StepLimits& limits, std::vector<PlannedRows>& plan) {
  plan.clear();
  int64_t n_decoding = 0;
  for (const SequenceNeed& need : needs) n_decoding += need.is_decoding && need.n_pending > 0 ? 1 : 0;
  n_decoding = std::min(n_decoding, limits.max_rows);

  const int64_t chunk =
      n_decoding > 0 ? std::min(limits.prefill_chunk, limits.prefill_chunk_shared) : limits.prefill_chunk;
  int64_t prefill_left = std::min(chunk, limits.max_rows - n_decoding);
  int64_t decode_left = n_decoding;
  for (size_t i = 0; i < needs.size(); ++i) {
    if (needs[i].n_pending <= 0) continue;
    int64_t& left = needs[i].is_decoding ? decode_left : prefill_left;
    const int64_t rows = std::min(left, needs[i].is_decoding ? int64_t(1) : needs[i].n_pending);
    if (rows <= 0) continue;
    left -= rows;
    plan.push_back({.index = i, .n_rows = rows, .wants_logits = rows == needs[i].n_pending});
  }
}

}  // namespace loft
