// apps: loft inspect: what a checkpoint is and what memory it takes, from its headers alone.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "backend/cpu/cpu_info.h"
#include "core/json.h"
#include "engine/open_engine.h"
#include "model/summary.h"

namespace loft {
namespace {

/// Bytes for weights and the keys and values of all sequences; activations come on top.
struct MemoryPlan {
  int64_t context = 0;
  int64_t parallel = 1;
  DType kv_dtype = DType::F16;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t available_bytes = 0;  // 0: unknown
  uint64_t total_bytes() const { return weight_bytes + kv_bytes; }
  bool fits() const { return available_bytes == 0 || total_bytes() <= available_bytes; }
};

MemoryPlan plan_memory(const ModelSummary& summary, const Options& o) {
  MemoryPlan plan;
  plan.context = choose_context(int64_t(o.ctx_size.value_or(0)), summary.config);
  plan.parallel = int64_t(o.parallel.value_or(1));
  plan.kv_dtype = kv_dtype(o);
  plan.weight_bytes = summary.weight_bytes;
  // The summary counts f16 keys and values.
  const uint64_t a_sequence = summary.kv_bytes_per_token * uint64_t(plan.context) + summary.kv_bytes_windows;
  plan.kv_bytes = a_sequence / 2 * dtype_bytes(plan.kv_dtype) * uint64_t(plan.parallel);
  plan.available_bytes = usable_memory(read_text_of_system());
  return plan;
}

OrderedJson to_json(const std::string& model, const ModelSummary& s, const MemoryPlan& plan) {
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
          {"plan",
           {{"ctx_size", plan.context},
            {"parallel", plan.parallel},
            {"kv_dtype", dtype_name(plan.kv_dtype)},
            {"weight_bytes", plan.weight_bytes},
            {"kv_bytes", plan.kv_bytes},
            {"total_bytes", plan.total_bytes()},
            {"available_bytes", plan.available_bytes},
            {"fits", plan.fits()}}},
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
  const ModelSummary summary = summarize_checkpoint(folder);
  const MemoryPlan plan = plan_memory(summary, o);
  if (o.json) {
    write_data(dump_json(to_json(args.positionals[0], summary, plan)) + "\n");
    return 0;
  }
  std::string text;
  for (const auto& [label, value] : summary_lines(summary)) text += fmt::format("{:<16} {}\n", label, value);
  text += fmt::format("{:<16} {:.1f} MiB weights + {:.1f} MiB keys and values ({} x {} tokens, {}) = {:.1f} MiB, ",
                      "memory plan", mib(plan.weight_bytes), mib(plan.kv_bytes), plan.parallel, plan.context,
                      dtype_name(plan.kv_dtype), mib(plan.total_bytes()));
  text += plan.available_bytes == 0
              ? "memory of this machine unknown\n"
              : fmt::format("{} {:.1f} MiB\n", plan.fits() ? "fits in" : "does not fit in", mib(plan.available_bytes));
  write_data(text);
  return 0;
}

}  // namespace loft
