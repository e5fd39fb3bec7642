// apps: loft inspect: what a checkpoint is and what memory it takes, from its headers alone.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "core/json.h"
#include "engine/open_engine.h"
#include "model/arch_list.h"
#include "model/memory_plan.h"
#include "model/summary.h"

namespace loft {
namespace {

struct Inspected {
  ModelSummary summary;
  ModelOptions options;
  MemoryPlan plan;
};

Inspected inspect(const std::filesystem::path& folder, const Options& o) {
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  const Checkpoint checkpoint(folder, config, arch->modules(config));
  const ModelOptions options = model_options(o, config, 1);
  const std::unique_ptr<Backend> backend = backend_from_options(o);
  return {summarize(config, checkpoint), options, plan_memory(config, checkpoint, *backend, options)};
}

OrderedJson plan_json(const MemoryPlan& plan, const ModelOptions& options) {
  return {{"ctx_size", options.kv_plan.max_tokens},
          {"parallel", options.kv_plan.n_sequences},
          {"kv_dtype", dtype_name(options.kv_plan.dtype)},
          {"rows", options.max_rows},
          {"weight_bytes", plan.weight_bytes},
          {"kv_bytes", plan.kv_bytes},
          {"activation_bytes", plan.activation_bytes},
          {"workspace_bytes", plan.workspace_bytes},
          {"total_bytes", plan.total_bytes()},
          {"available_bytes", plan.have_bytes},
          {"limited", plan.is_limited},
          {"fits", plan.fits()}};
}

OrderedJson to_json(const std::string& model, const Inspected& inspected) {
  const ModelSummary& s = inspected.summary;
  OrderedJson formats = OrderedJson::array();
  for (const FormatCount& f : s.formats) {
    formats.push_back(
        {{"format", format_name(f.format)}, {"modules", f.n_modules}, {"weights", f.n_weights}, {"bytes", f.bytes}});
  }
  return {{"schema", "loft.inspect/1"},
          {"model", model},
          {"model_type", s.config.model_type},
          {"layers", s.config.n_layers},
          {"hidden_size", s.config.hidden_size},
          {"vocab_size", s.config.vocab_size},
          {"max_context", s.config.max_positions},
          {"weights", s.n_weights},
          {"weight_bytes", s.weight_bytes},
          {"formats", formats},
          {"dtype_bytes", s.dtypes},
          {"tied", s.is_tied},
          {"kv_bytes_per_token", s.kv_bytes_per_token},
          {"kv_bytes_windows", s.kv_bytes_windows},
          {"plan", plan_json(inspected.plan, inspected.options)},
          {"notes", s.notes}};
}

double mib(uint64_t bytes) {
  return double(bytes) / double(1 << 20);
}

}  // namespace

int run_inspect(const ParsedArgs& args) {
  const Options& o = args.options;
  const std::vector<std::string> environment = process_environment();
  const std::filesystem::path folder =
      resolve_model(args.positionals[0], {.models_dir = o.models_dir, .environment = environment});
  const Inspected found = inspect(folder, o);
  if (o.json) {
    write_data(dump_json(to_json(args.positionals[0], found)) + "\n");
    return 0;
  }
  const MemoryPlan& plan = found.plan;
  const KvPlan& kv = found.options.kv_plan;
  std::string text;
  for (const auto& [label, value] : summary_lines(found.summary)) text += fmt::format("{:<16} {}\n", label, value);
  text += fmt::format(
      "{:<16} {:.1f} MiB weights + {:.1f} MiB activations of {} rows + {:.1f} MiB workspace + {:.1f} MiB keys and "
      "values "
      "({} x {} tokens, {}) = {:.1f} MiB, ",
      "memory plan", mib(plan.weight_bytes), mib(plan.activation_bytes), found.options.max_rows,
      mib(plan.workspace_bytes), mib(plan.kv_bytes), kv.n_sequences, kv.max_tokens, dtype_name(kv.dtype),
      mib(plan.total_bytes()));
  text += plan.have_bytes == 0 ? "memory of this machine unknown\n"
                               : fmt::format("{} {:.1f} MiB{}\n", plan.fits() ? "fits in" : "does not fit in",
                                             mib(plan.have_bytes), plan.is_limited ? " of the memory limit" : "");
  write_data(text);
  return 0;
}

}  // namespace loft
