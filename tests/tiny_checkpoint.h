// Tests only: tiny seeded checkpoints, edits of them on disk, their dense twins, and logits of a folder in one call.
#pragma once
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/arch_list.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "model/synth.h"
#include "model/weights.h"
#include "quant/reference.h"

namespace loft {

/// A folder that goes with its object.
class TempFolder {
 public:
  TempFolder() {
    static int n_made = 0;
    path_ = std::filesystem::temp_directory_path() / fmt::format("loft-test-{}-{}", ::getpid(), n_made++);
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline Json tiny_llama() {
  return {{"model_type", "llama"},    {"hidden_size", 128},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 256},
          {"vocab_size", 320},        {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", true}};
}
inline Json tiny_gemma() {
  return {{"model_type", "gemma3_text"}, {"hidden_size", 128},       {"num_hidden_layers", 3},
          {"num_attention_heads", 4},    {"num_key_value_heads", 1}, {"head_dim", 32},
          {"intermediate_size", 256},    {"vocab_size", 320},        {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-6},        {"sliding_window", 16},     {"sliding_window_pattern", 3},
          {"query_pre_attn_scalar", 32}};
}
inline Json untied(Json config) {
  config["tie_word_embeddings"] = false;
  return config;
}
inline SynthRequest tiny_request(const Json& config) {
  SynthRequest request;
  request.config_json = dump_json(config);
  return request;
}

inline void edit_config(const std::filesystem::path& folder, const std::function<void(Json&)>& edit) {
  Json config = read_json_file(folder / "config.json");
  edit(config);
  write_text_file(folder / "config.json", dump_json(config));
}

struct OwnedTensor {
  DType dtype = DType::F32;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};
using Tensors = std::map<std::string, OwnedTensor>;

inline OwnedTensor float_tensor(std::vector<uint64_t> shape, const std::vector<float>& values) {
  OwnedTensor t{.dtype = DType::F32, .shape = std::move(shape), .bytes = std::vector<uint8_t>(values.size() * 4)};
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

inline Tensors read_tensors(const std::filesystem::path& folder) {
  const Shards shards = Shards::open(folder);
  Tensors out;
  for (const std::string& name : shards.names()) {
    const StoredTensor* t = shards.find(name);
    out[name] = {*t->dtype, t->shape, {t->bytes.begin(), t->bytes.end()}};
  }
  return out;
}

/// Replaces the weights of a folder; the rest of it stays.
inline void write_tensors(const std::filesystem::path& folder, const Tensors& tensors) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("model")) std::filesystem::remove(entry.path());
  }
  std::vector<TensorPlan> plan;
  for (const auto& [name, t] : tensors) plan.push_back({.name = name, .dtype = t.dtype, .shape = t.shape});
  SafetensorsWriter writer(folder, plan);
  for (const auto& [name, t] : tensors) writer.append(t.bytes);
  writer.finish();
}

inline void edit_tensors(const std::filesystem::path& folder, const std::function<void(Tensors&)>& edit) {
  Tensors tensors = read_tensors(folder);
  edit(tensors);
  write_tensors(folder, tensors);
}

inline Checkpoint open_checkpoint(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  return Checkpoint(folder, config, find_arch(config.model_type)->modules(config));
}

/// The same model with every weight dequantized to f32 and no quantization dict, in the new folder `to`.
inline void make_dense_twin(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  Tensors tensors = read_tensors(from);
  const Checkpoint checkpoint = open_checkpoint(from);
  for (const StoredModule& module : checkpoint.modules()) {
    const QuantWeight& w = module.weight;
    if (w.format.kind == QuantKind::Dense) continue;
    for (const char* part : {".weight", ".scales", ".biases"}) tensors.erase(module.shape.path + part);
    tensors[module.shape.path + ".weight"] = float_tensor({uint64_t(w.n), uint64_t(w.k)}, reference_dequantize(w));
  }
  write_tensors(to, tensors);
  edit_config(to, [](Json& config) {
    config.erase("quantization");
    config.erase("quantization_config");
  });
}

inline std::unique_ptr<Backend> open_test_backend(QmmActivations activations = QmmActivations::F32) {
  CpuBackendOptions options;
  options.policy.activations = activations;
  return open_cpu_backend(options);
}

/// Logits of every row of one sequence, [ids, vocab], in passes of at most `chunk` rows with f32 keys and values.
inline std::vector<float> run_model(Backend& backend, Model& model, const std::vector<int32_t>& ids, int64_t chunk) {
  std::vector<float> out;
  const int64_t n = int64_t(ids.size());
  KvCache cache(backend, model.kv_shape(DType::F32, n, chunk));
  for (int64_t first = 0; first < n; first += chunk) {
    const int64_t m = std::min(chunk, n - first);
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < m; ++i) rows.push_back(int32_t(i));
    const BatchSequence sequence{.cache = &cache, .first_row = 0, .n_rows = m};
    const Tensor logits =
        model.forward({.tokens = {ids.data() + first, size_t(m)}, .sequences = {&sequence, 1}, .logit_rows = rows});
    out.resize(out.size() + size_t(logits.size()));
    backend.download(out.data() + out.size() - size_t(logits.size()), logits.data, logits.bytes());
  }
  return out;
}

inline std::vector<float> logits_of(const std::filesystem::path& folder, const std::vector<int32_t>& ids) {
  const std::unique_ptr<Backend> backend = open_test_backend();
  const int64_t n = int64_t(ids.size());
  const std::unique_ptr<Model> model = load_model(folder, *backend, {.max_rows = n, .max_logit_rows = n});
  return run_model(*backend, *model, ids, n);
}

inline std::vector<int32_t> some_ids(int n, int vocab = 320) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(int32_t((i * 97 + 13 * i * i + 5) % vocab));
  return ids;
}

/// The largest difference, as a share of the largest value of b.
inline float relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  float worst = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= worst)) worst = std::fabs(a[i] - b[i]);
    size = std::max(size, std::fabs(b[i]));
  }
  return worst / size;
}
/// Products over packed and over dense weights sum in other orders: f32 rounding through two layers, with room.
inline constexpr float kTwinTolerance = 5e-5f;

/// The message of the Error that `action` throws; empty when it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace loft
