// model: opens a checkpoint folder: config, headers, the memory question, then the weights.
#include "model/model.h"

#include "backend/device_info.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/log.h"
#include "model/arch_list.h"
#include "model/blocks.h"
#include "model/summary.h"
#include "model/weights.h"

namespace loft {
namespace {

/// Weights may be packed once more into a kernel's layout, of about their size, while the mapped files can be dropped
/// by the kernel at any time: so the larger of the two copies counts once.
void check_memory(const std::filesystem::path& folder, const ModelConfig& config, const Checkpoint& checkpoint,
                  const Backend& backend, const ModelOptions& options) {
  const uint64_t have = uint64_t(std::max<int64_t>(backend.device().memory_bytes, 0));
  const uint64_t activations = scratch_bytes(config, options);
  const KvPlan& kv = options.kv_plan;
  const uint64_t kv_dims[] = {
      kv.n_sequences > 0 ? kv_cache_bytes(kv_shape_of(config, kv.dtype, kv.max_tokens, kv.max_chunk)) : 0,
      uint64_t(kv.n_sequences)};
  const uint64_t kv_bytes = checked_product(kv_dims).value_or(uint64_t(INT64_MAX));
  const uint64_t need = checkpoint.weight_bytes() + activations + kv_bytes;
  if (have == 0 || need <= have) return;
  fail(Code::OutOfMemory,
       "{}: needs {} bytes ({} of weights, {} of activations for {} rows and {} logit rows, {} of keys and values of "
       "{} sequences of {} tokens), {} has {} bytes; a smaller --ctx-size or --prefill-chunk needs less",
       folder.string(), need, checkpoint.weight_bytes(), activations, options.max_rows, options.max_logit_rows,
       kv_bytes, kv.n_sequences, kv.max_tokens, backend.device().name, have);
}

}  // namespace

std::unique_ptr<Model> load_model(const std::filesystem::path& folder, Backend& backend, const ModelOptions& options) {
  LOFT_CHECK(options.max_rows >= 1 && options.max_logit_rows >= 1 && is_float(options.dtype));
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  Checkpoint checkpoint(folder, config, arch->modules(config));
  check_memory(folder, config, checkpoint, backend, options);
  for (const std::string& note : checkpoint.notes()) log_info("{}: {}", folder.string(), note);
  if (log_level() <= LogLevel::Info) {
    for (const auto& [label, value] : summary_lines(summarize(config, checkpoint))) {
      if (label != "note") log_info("{}: {}", label, value);
    }
  }
  return arch->make(config, Weights(backend, std::move(checkpoint)), options);
}

}  // namespace loft
