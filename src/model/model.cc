// model: opens a checkpoint folder: config, headers, the memory question, then the weights.
#include "model/model.h"

#include "core/error.h"
#include "core/log.h"
#include "model/arch_list.h"
#include "model/memory_plan.h"
#include "model/summary.h"
#include "model/weights.h"

namespace loft {
namespace {

/// Weights may be packed once more into a kernel's layout, of about their size, while the mapped files can be dropped
/// by the kernel at any time: so the larger of the two copies counts once.
void check_memory(const std::filesystem::path& folder, const MemoryPlan& plan, const Backend& backend,
                  const ModelOptions& options) {
  if (plan.fits()) return;
  fail(
      Code::OutOfMemory,
      "{}: needs {} bytes ({} of weights, {} of activations for {} rows and {} logit rows, {} of workspace, {} of "
      "keys and values of {} sequences of {} tokens), {} has {} bytes{}; a smaller --ctx-size or --prefill-chunk needs "
      "less",
      folder.string(), plan.total_bytes(), plan.weight_bytes, plan.activation_bytes, options.max_rows,
      options.max_logit_rows, plan.workspace_bytes, plan.kv_bytes, options.kv_plan.n_sequences,
      options.kv_plan.max_tokens, backend.device().name, plan.have_bytes,
      plan.is_limited ? " by the memory limit" : "");
}

}  // namespace

std::unique_ptr<Model> load_model(const std::filesystem::path& folder, Backend& backend, const ModelOptions& options,
                                  MemoryPlan* plan) {
  LOFT_CHECK(options.max_rows >= 1 && options.max_logit_rows >= 1 && is_float(options.dtype));
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  Checkpoint checkpoint(folder, config, arch->modules(config));
  const MemoryPlan needs = plan_memory(config, checkpoint, backend, options);
  check_memory(folder, needs, backend, options);
  if (plan) *plan = needs;
  for (const std::string& note : checkpoint.notes()) log_info("{}: {}", folder.string(), note);
  if (log_level() <= LogLevel::Info) {
    for (const auto& [label, value] : summary_lines(summarize(config, checkpoint))) {
      if (label != "note") log_info("{}: {}", label, value);
    }
  }
  return arch->make(config, Weights(backend, std::move(checkpoint)), options);
}

}  // namespace loft
