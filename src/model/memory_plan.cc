// model: sums of what make_scratch, make_linear_workspace and the KV caches will allocate.
#include "model/memory_plan.h"

#include <algorithm>
#include <climits>

#include "core/checked.h"
#include "model/blocks.h"
#include "qmm/route.h"

namespace loft {
namespace {

uint64_t kv_bytes_of(const ModelConfig& config, const KvPlan& kv) {
  if (kv.n_sequences == 0) return 0;
  const uint64_t dims[] = {kv_cache_bytes(kv_shape_of(config, kv.dtype, kv.max_tokens, kv.max_chunk)),
                           uint64_t(kv.n_sequences)};
  return std::min(checked_product(dims).value_or(UINT64_MAX), uint64_t(INT64_MAX) / 4);
}

/// The largest need of one product: all of them share one workspace. A tied head is the embedding.
uint64_t workspace_bytes_of(const Checkpoint& checkpoint, const Backend& backend, const ModelOptions& options) {
  uint64_t most = 0;
  for (const StoredModule& module : checkpoint.modules()) {
    const ModuleKind kind = module.shape.kind;
    const bool is_head = kind == ModuleKind::Head || (kind == ModuleKind::Embedding && checkpoint.is_tied());
    if (kind != ModuleKind::Linear && !is_head) continue;
    const int64_t m = std::min<int64_t>(is_head ? options.max_logit_rows : options.max_rows, INT_MAX);
    most = std::max<uint64_t>(most, largest_workspace_bytes(qmm_spec(module.weight, options.dtype), m, backend.device(),
                                                            backend.policy(), backend.qmm_table()));
  }
  return std::min(most, uint64_t(INT64_MAX) / 4);
}

}  // namespace

MemoryPlan plan_memory(const ModelConfig& config, const Checkpoint& checkpoint, const Backend& backend,
                       const ModelOptions& options) {
  MemoryPlan plan{.weight_bytes = checkpoint.weight_bytes(),
                  .activation_bytes = scratch_bytes(config, options),
                  .workspace_bytes = workspace_bytes_of(checkpoint, backend, options),
                  .kv_bytes = kv_bytes_of(config, options.kv_plan),
                  .have_bytes = uint64_t(std::max<int64_t>(backend.device().memory_bytes, 0))};
  const uint64_t limit = backend.memory().limit_bytes;
  if (limit > 0 && (plan.have_bytes == 0 || limit < plan.have_bytes)) {
    plan.have_bytes = limit;
    plan.is_limited = true;
  }
  return plan;
}

}  // namespace loft
