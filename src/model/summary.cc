// model: counts over the modules of a checkpoint, and their text.
#include "model/summary.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "model/arch_list.h"

namespace loft {
namespace {

void count_module(const StoredModule& module, ModelSummary& out) {
  const QuantWeight& w = module.weight;
  const uint64_t n_weights = uint64_t(w.n) * uint64_t(w.k);
  const uint64_t bytes = weight_bytes(w);
  out.n_weights += n_weights;
  if (module.bias) {
    out.n_weights += uint64_t(w.n);
    out.dtypes[dtype_name(*module.bias->dtype)] += module.bias->bytes.size();
  }
  if (w.format.kind == QuantKind::Dense) {
    out.dtypes[dtype_name(w.dense_dtype)] += bytes;
  } else if (w.format.kind == QuantKind::Affine) {
    out.dtypes[dtype_name(w.scale_dtype)] += 2 * scale_row_bytes(w) * uint64_t(w.n);
  }
  if (module.shape.kind == ModuleKind::Norm) return;
  const auto same = [&](const FormatCount& f) { return f.format == w.format; };
  auto it = std::find_if(out.formats.begin(), out.formats.end(), same);
  if (it == out.formats.end()) it = out.formats.insert(it, {.format = w.format});
  it->n_modules += 1;
  it->n_weights += n_weights;
  it->bytes += bytes;
}

std::string rope_text(const RopeConfig& rope) {
  std::string text = fmt::format("theta {} ({})", rope.theta, rope.theta_source);
  if (rope.type != RopeType::Default) text += fmt::format(", {}, factor {}", rope_type_name(rope.type), rope.factor);
  return text;
}

std::string bytes_text(uint64_t bytes) {
  return fmt::format("{} ({:.1f} MiB)", bytes, double(bytes) / (1 << 20));
}

}  // namespace

ModelSummary summarize(const ModelConfig& config, const Checkpoint& checkpoint) {
  ModelSummary out{.config = config,
                   .formats = {},
                   .dtypes = {},
                   .weight_bytes = checkpoint.weight_bytes(),
                   .is_tied = checkpoint.is_tied(),
                   .notes = checkpoint.notes()};
  for (const StoredModule& module : checkpoint.modules()) count_module(module, out);
  std::stable_sort(out.formats.begin(), out.formats.end(),
                   [](const FormatCount& a, const FormatCount& b) { return a.bytes > b.bytes; });
  const uint64_t row = 2 * uint64_t(config.n_kv_heads) * uint64_t(config.head_dim) * dtype_bytes(DType::F16);
  for (const int64_t window : config.layer_windows) {
    if (window == 0) out.kv_bytes_per_token += row;
    out.kv_bytes_windows += row * uint64_t(window);
  }
  return out;
}

ModelSummary summarize_checkpoint(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  return summarize(config, Checkpoint(folder, config, arch->modules(config)));
}

std::vector<std::pair<std::string, std::string>> summary_lines(const ModelSummary& s) {
  const ModelConfig& c = s.config;
  const int64_t n_sliding =
      std::count_if(c.layer_windows.begin(), c.layer_windows.end(), [](int64_t w) { return w > 0; });
  std::vector<std::pair<std::string, std::string>> lines;
  const auto put = [&](const char* label, std::string value) { lines.emplace_back(label, std::move(value)); };
  put("model_type", c.wrapper_type.empty() ? c.model_type : fmt::format("{} in {}", c.model_type, c.wrapper_type));
  put("layers", n_sliding ? fmt::format("{}, {} of them with a window of {}", c.n_layers, n_sliding, c.sliding_window)
                          : fmt::format("{}", c.n_layers));
  put("hidden", fmt::format("{}, MLP {}", c.hidden_size, c.intermediate_size));
  put("heads", fmt::format("{}, {} for keys and values, {} wide", c.n_heads, c.n_kv_heads, c.head_dim));
  put("vocabulary", fmt::format("{}, head {}", c.vocab_size, s.is_tied ? "tied to the embedding" : "of its own"));
  put("context", fmt::format("{}", c.max_positions));
  put("rope", rope_text(c.rope));
  if (n_sliding && c.model_type.starts_with("gemma")) put("rope of sliding layers", rope_text(c.local_rope));
  put("parameters", fmt::format("{}", s.n_weights));
  for (const FormatCount& f : s.formats) {
    put("format", fmt::format("{}: {} modules, {} weights, {}", format_name(f.format), f.n_modules, f.n_weights,
                              bytes_text(f.bytes)));
  }
  std::vector<std::string> dtypes;
  for (const auto& [name, bytes] : s.dtypes) dtypes.push_back(fmt::format("{} {}", name, bytes));
  put("float tensors", fmt::format("{}", fmt::join(dtypes, ", ")));
  put("weight bytes", bytes_text(s.weight_bytes));
  put("KV bytes a token", s.kv_bytes_windows ? fmt::format("{} (f16), and {} for the windows", s.kv_bytes_per_token,
                                                           bytes_text(s.kv_bytes_windows))
                                             : fmt::format("{} (f16)", s.kv_bytes_per_token));
  for (const std::string& note : s.notes) put("note", note);
  return lines;
}

}  // namespace loft
