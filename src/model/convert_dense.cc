// model: a folder of dense safetensors to an MLX checkpoint. What enters: Hugging Face files. What leaves: the same
// tensors under the same names with MLX's metadata, the float ones cast when asked for, and copies of the small files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/checkpoint_files.h"
#include "model/convert_steps.h"
#include "model/safetensors.h"

namespace loft {
namespace {

/// model_types whose names in Hugging Face form are those of MLX.
constexpr const char* kModelTypes[] = {"llama", "mistral", "gemma3_text", "gemma3"};

/// Tensors that MLX has no use for, by a part of their name.
struct SkipRow {
  const char* part;
  const char* why;
};
constexpr SkipRow kSkipped[] = {
    {"rotary_emb.inv_freq", "computed from config.json"},
    {"vision_tower.", "the vision part is not converted"},
    {"multi_modal_projector.", "the vision part is not converted"},
};

std::string checked_model_type(const Json& config, const std::string& where) {
  std::string model_type = take<std::string>(config, "model_type", where);
  if (std::ranges::find(kModelTypes, model_type) == std::end(kModelTypes)) {
    fail(Code::Unsupported, "{}: model_type \"{}\" cannot be converted; these can: {}", where, model_type,
         fmt::join(kModelTypes, ", "));
  }
  for (const char* key : {"quantization", "quantization_config"}) {
    if (find_member(config, key)) {
      fail(Code::Unsupported, "{}: has \"{}\": it is quantized already, wanted a dense checkpoint", where, key);
    }
  }
  return model_type;
}

// Older transformers wrote the layers of a wrapped model as language_model.model.*, newer ones as
// model.language_model.*; MLX has the former.
std::string mlx_name(const std::string& name, const std::string& model_type) {
  constexpr std::string_view kNewer = "model.language_model.";
  if (model_type != "gemma3") return name;
  if (name.starts_with(kNewer)) return "language_model.model." + name.substr(kNewer.size());
  if (name.starts_with("lm_head.")) return "language_model." + name;
  return name;
}

/// One tensor to be written.
struct DenseStep {
  std::string source;
  std::string name;
  const StoredTensor* tensor;
  DType dtype;
};

float load_float(const uint8_t* p, DType dtype) {
  if (dtype == DType::F32) {
    float v;
    std::memcpy(&v, p, 4);
    return v;
  }
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return dtype == DType::F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// Stores v and returns the value that it now is.
float store_float(float v, DType dtype, uint8_t* p) {
  if (dtype == DType::F32) {
    std::memcpy(p, &v, 4);
    return v;
  }
  const uint16_t bits = dtype == DType::F16 ? f32_to_f16(v) : f32_to_bf16(v);
  std::memcpy(p, &bits, 2);
  return dtype == DType::F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// Casts piece by piece: a shard can be larger than memory.
ConvertRow cast_tensor(const DenseStep& step, SafetensorsWriter& out) {
  constexpr size_t kPiece = 1 << 20;
  const DType from = *step.tensor->dtype;
  const size_t width = dtype_bytes(from);
  const size_t n = step.tensor->bytes.size() / width;
  std::vector<uint8_t> piece;
  double largest = 0;
  double worst = 0;
  for (size_t first = 0; first < n; first += kPiece) {
    const size_t count = std::min(kPiece, n - first);
    piece.resize(count * dtype_bytes(step.dtype));
    for (size_t i = 0; i < count; ++i) {
      const float v = load_float(step.tensor->bytes.data() + (first + i) * width, from);
      const float kept = store_float(v, step.dtype, piece.data() + i * dtype_bytes(step.dtype));
      if (!std::isfinite(kept)) {
        fail(std::isfinite(v) ? Code::Unsupported : Code::Corrupt, "{}: value {} at {} does not fit {}", step.source, v,
             first + i, dtype_name(step.dtype));
      }
      largest = std::max(largest, double(std::fabs(v)));
      worst = std::max(worst, std::fabs(double(kept) - double(v)));
    }
    out.append(piece);
  }
  return {.source = step.tensor->dtype_text,
          .target = fmt::format("dense {}", dtype_name(step.dtype)),
          .exactness = worst > 0 ? Exactness::Rounded : Exactness::Exact,
          .n_tensors = 1,
          .n_weights = n,
          .max_error = worst,
          .max_relative_error = largest > 0 ? worst / largest : 0,
          .worst_tensor = worst > 0 ? step.source : ""};
}

class DenseSteps {
 public:
  DenseSteps(const Shards& shards, const ConvertRequest& request, const std::string& model_type, bool is_tied) {
    std::map<std::string, int> skipped;
    for (const std::string& name : shards.names()) {
      const auto why = skip_reason(name, is_tied);
      if (why) {
        ++skipped[*why];
        continue;
      }
      const StoredTensor& t = *shards.find(name);
      if (!t.dtype)
        fail(Code::Unsupported, "{}: {}: dtype {} cannot be converted", shards.file_of(name), name, t.dtype_text);
      const bool is_cast = request.dtype && is_float(*t.dtype);
      steps.push_back({name, mlx_name(name, model_type), &t, is_cast ? *request.dtype : *t.dtype});
      total_bytes += t.bytes.size();
    }
    for (const auto& [why, n] : skipped) notes.push_back(fmt::format("{} tensors left out: {}", n, why));
  }

  std::vector<TensorPlan> plan() const {
    std::vector<TensorPlan> plan;
    for (const DenseStep& step : steps) plan.push_back({step.name, step.dtype, step.tensor->shape});
    return plan;
  }

  std::vector<DenseStep> steps;
  std::vector<std::string> notes;
  uint64_t total_bytes = 0;

 private:
  static std::optional<std::string> skip_reason(const std::string& name, bool is_tied) {
    for (const SkipRow& row : kSkipped) {
      if (name.find(row.part) != std::string::npos) return row.why;
    }
    if (is_tied && name.ends_with("lm_head.weight")) return "lm_head, since config.json ties it to the embedding";
    return std::nullopt;
  }
};

// tie_word_embeddings of the innermost config that has it.
bool is_tied(const Json& config, const std::string& where) {
  const Json* text = find_member(config, "text_config");
  const std::optional<bool> inner = text ? loft::find<bool>(*text, "tie_word_embeddings", where) : std::nullopt;
  return inner.value_or(loft::find<bool>(config, "tie_word_embeddings", where).value_or(false));
}

// config.json as it was, without the vision part; a cast also changes what it says of the dtype.
void write_config(const ConvertRequest& request, const std::filesystem::path& folder) {
  const std::filesystem::path path = request.src / "config.json";
  OrderedJson config = parse_ordered_json(read_text_file(path, JsonLimits().max_bytes), path.string());
  config.erase("vision_config");
  if (request.dtype) {
    const std::string name = *request.dtype == DType::F32   ? "float32"
                             : *request.dtype == DType::F16 ? "float16"
                                                            : "bfloat16";
    const auto set_dtype = [&](OrderedJson& c) {
      for (const char* key : {"torch_dtype", "dtype"}) {
        if (c.contains(key)) c[key] = name;
      }
    };
    if (!config.contains("dtype")) config["torch_dtype"] = name;
    set_dtype(config);
    if (config.contains("text_config") && config["text_config"].is_object()) set_dtype(config["text_config"]);
  }
  write_text_file(folder / "config.json", dump_json(config, 2) + "\n");
}

}  // namespace

ConvertReport convert_dense(const ConvertRequest& request, const std::filesystem::path& folder,
                            const ProgressFn& progress) {
  const std::filesystem::path config_path = resolve_checkpoint_file(request.src, request.src / "config.json");
  const std::string where = (request.src / "config.json").string();
  const Json config = read_json_file(config_path);
  ConvertReport report;
  report.model_type = checked_model_type(config, where);
  report.source_kind = fmt::format("safetensors {}", report.model_type);

  const Shards shards = Shards::open(request.src);
  DenseSteps list(shards, request, report.model_type, is_tied(config, where));
  report.notes = list.notes;
  const std::vector<TensorPlan> plan = list.plan();
  SafetensorsWriter out(folder, plan);
  uint64_t done = 0;
  for (const DenseStep& step : list.steps) {
    if (step.dtype != *step.tensor->dtype) {
      add_to_report(report, cast_tensor(step, out));
    } else {
      out.append(step.tensor->bytes);
      add_to_report(report, {.source = step.tensor->dtype_text,
                             .target = fmt::format("dense {}", dtype_name(step.dtype)),
                             .exactness = Exactness::Exact,
                             .n_tensors = 1,
                             .n_weights = step.tensor->bytes.size() / dtype_bytes(step.dtype),
                             .worst_tensor = ""});
    }
    done += step.tensor->bytes.size();
    if (progress) progress(done, list.total_bytes);
  }
  out.finish();
  for (const TensorPlan& tensor : plan) report.bytes_written += tensor.bytes();
  report.n_tensors = plan.size();
  write_config(request, folder);
  copy_side_files(request.src, folder);
  return report;
}

}  // namespace loft
