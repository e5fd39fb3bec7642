// model: what a loaded model takes, from the headers of its checkpoint: asked before weights are read, printed by
// `loft inspect`, and what the measured peak is held against.
#pragma once
#include <cstdint>

#include "backend/backend.h"
#include "model/model.h"
#include "model/weights.h"

namespace loft {

struct MemoryPlan {
  uint64_t weight_bytes = 0;      // on a CPU mapped from the files, elsewhere allocated
  uint64_t activation_bytes = 0;  // of one forward pass of max_rows rows
  uint64_t workspace_bytes = 0;   // of quantized products: prepared activations, panels
  uint64_t kv_bytes = 0;          // keys and values of all sequences of ModelOptions::kv_plan
  uint64_t have_bytes = 0;        // the machine's memory, or the limit where that is less; 0: unknown
  bool is_limited = false;        // have_bytes is the limit's
  uint64_t total_bytes() const { return weight_bytes + activation_bytes + workspace_bytes + kv_bytes; }
  bool fits() const { return have_bytes == 0 || total_bytes() <= have_bytes; }
};

/// Sums that do not fit are told as sizes that no machine has. Error: Unsupported when one sequence's keys and values
/// or the activations do not fit 63 bits.
MemoryPlan plan_memory(const ModelConfig& config, const Checkpoint& checkpoint, const Backend& backend,
                       const ModelOptions& options);

}  // namespace loft
