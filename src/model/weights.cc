// model: finds, checks and places the tensors of every module. The rules are those of MLX; see weights.h.
#include "model/weights.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/log.h"

namespace loft {
namespace {

using Shape = std::vector<uint64_t>;

/// Parts of names of tensors that a checkpoint may hold and loft does not use.
constexpr const char* kIgnoredParts[] = {
    "vision_tower.", "vision_model.", "audio_tower.", "multi_modal_projector.", "mtp.", "rotary_emb.inv_freq",
};

bool is_ignored(const std::string& name) {
  for (const char* part : kIgnoredParts) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Shape words_shape(const ModuleShape& m, const QuantFormat& f) {
  return {uint64_t(m.n), uint64_t(m.k) * uint64_t(f.bits) / 32};
}
Shape scales_shape(const ModuleShape& m, const QuantFormat& f) {
  return {uint64_t(m.n), uint64_t(m.k) / uint64_t(f.group)};
}
bool divides(const ModuleShape& m, const QuantFormat& f) {
  return m.k % f.group == 0 && m.k * f.bits % 32 == 0;
}

/// The format that shapes and dtypes of a quantized module give, k known from the config; nullopt: none does.
std::optional<QuantFormat> infer_format(const ModuleShape& m, const StoredTensor& words, const StoredTensor& scales) {
  if (words.shape.size() != 2 || scales.shape.size() != 2 || scales.shape[1] == 0) return std::nullopt;
  const uint64_t k = uint64_t(m.k);
  if (words.shape[1] > k || scales.shape[1] > k) return std::nullopt;
  if (k % scales.shape[1] != 0 || words.shape[1] * 32 % k != 0) return std::nullopt;
  QuantFormat format{
      .kind = QuantKind::Affine, .bits = int(words.shape[1] * 32 / k), .group = int(k / scales.shape[1])};
  if (scales.dtype == DType::U8) {
    for (const QuantKind kind : {QuantKind::Nvfp4, QuantKind::Mxfp4, QuantKind::Mxfp8}) {
      format.kind = kind;
      if (is_valid(format)) return format;
    }
    return std::nullopt;
  }
  return is_valid(format) ? std::optional(format) : std::nullopt;
}

}  // namespace

/// Reads the modules of one checkpoint, one after the other, and remembers which tensors were taken.
struct ModuleReader {
  const ModelConfig& config;
  const std::string folder;
  Checkpoint& out;
  std::set<std::string> taken;

  const StoredTensor* find(const std::string& name) {
    const StoredTensor* tensor = out.shards_.find(name);
    if (tensor) taken.insert(name);
    return tensor;
  }
  std::string place(const std::string& name) const { return fmt::format("{}, in {}", name, out.shards_.file_of(name)); }

  const StoredTensor& take(const std::string& name, const Shape& wanted) {
    const StoredTensor* tensor = find(name);
    if (!tensor) {
      fail(Code::NotFound, "{}: missing, wanted shape {}, in the model*.safetensors of {}", name, shape_text(wanted),
           folder);
    }
    return *tensor;
  }
  void check_shape(const std::string& name, const StoredTensor& tensor, const Shape& wanted) {
    if (tensor.shape != wanted) {
      fail(Code::Corrupt, "{}: shape {}, wanted {}", place(name), shape_text(tensor.shape), shape_text(wanted));
    }
  }
  DType float_dtype(const std::string& name, const StoredTensor& tensor) {
    if (!tensor.dtype || !is_float(*tensor.dtype)) {
      fail(Code::Corrupt, "{}: dtype {}, wanted F32, F16 or BF16", place(name), tensor.dtype_text);
    }
    return *tensor.dtype;
  }

  /// What the dict says of a path: nullopt when it is not listed.
  std::optional<QuantFormat> settings_of(const std::string& path) const {
    const auto it = config.quantization.modules.find(path);
    if (it == config.quantization.modules.end()) return std::nullopt;
    if (const QuantFormat* format = std::get_if<QuantFormat>(&it->second)) return *format;
    if (!std::get<bool>(it->second)) return QuantFormat{.kind = QuantKind::Dense, .bits = 16, .group = 0};
    LOFT_CHECK(config.quantization.global.has_value());
    return *config.quantization.global;
  }

  void read_dense(StoredModule& module) {
    const ModuleShape& m = module.shape;
    const std::string name = m.path + ".weight";
    const bool is_norm = m.kind == ModuleKind::Norm;
    const Shape wanted = is_norm ? Shape{uint64_t(m.n)} : Shape{uint64_t(m.n), uint64_t(m.k)};
    const StoredTensor& tensor = take(name, wanted);
    if (tensor.dtype == DType::U32 && module.has_settings) {
      fail(Code::Corrupt, "{}: dtype U32, wanted a float: the quantization entry of {} says false (dense)", place(name),
           m.path);
    }
    const DType dtype = float_dtype(name, tensor);
    check_shape(name, tensor, wanted);
    module.weight = {.format = {.kind = QuantKind::Dense, .bits = int(dtype_bytes(dtype)) * 8, .group = 0},
                     .n = is_norm ? 1 : m.n,
                     .k = is_norm ? m.n : m.k,
                     .dense_dtype = dtype,
                     .scale_dtype = dtype,
                     .words = tensor.bytes.data()};
  }

  /// Shapes of words and scales against the settings; `from` says where the settings come from.
  void check_quantized(const ModuleShape& m, const QuantFormat& format, const std::string& from,
                       const StoredTensor& words, const StoredTensor& scales) {
    const bool is_u8 = scales.dtype == DType::U8;
    if (divides(m, format) && words.shape == words_shape(m, format) && scales.shape == scales_shape(m, format) &&
        is_u8 == (format.kind != QuantKind::Affine)) {
      return;
    }
    const std::optional<QuantFormat> inferred = infer_format(m, words, scales);
    const std::string wanted = divides(m, format) ? fmt::format("{} and {}", shape_text(words_shape(m, format)),
                                                                shape_text(scales_shape(m, format)))
                                                  : fmt::format("{} inputs in whole groups", m.k);
    fail(Code::Corrupt,
         "{}.weight: shape {} with scales {} ({}), wanted {} for {} ({} outputs, {} inputs; {}); the shapes say {}; in "
         "{}",
         m.path, shape_text(words.shape), shape_text(scales.shape), scales.dtype_text, wanted, format_name(format), m.n,
         m.k, from, inferred ? format_name(*inferred) : "no known format", out.shards_.file_of(m.path + ".weight"));
  }

  QuantFormat format_of(const StoredModule& module, const StoredTensor& words, const StoredTensor& scales) {
    const ModuleShape& m = module.shape;
    if (const std::optional<QuantFormat> listed = settings_of(m.path)) {
      check_quantized(m, *listed, fmt::format("from the quantization entry of {}", m.path), words, scales);
      return *listed;
    }
    const std::optional<QuantFormat> inferred = infer_format(m, words, scales);
    const QuantFormat global =
        config.quantization.global.value_or(QuantFormat{.kind = QuantKind::Affine, .bits = 4, .group = 64});
    const QuantFormat format = inferred.value_or(global);
    check_quantized(m, format, "from the global quantization settings", words, scales);
    if (!config.quantization.global) {
      out.notes_.push_back(
          fmt::format("{}: {} by its shapes; config.json has no quantization settings", m.path, format_name(format)));
    } else if (format != global) {
      out.notes_.push_back(fmt::format("{}: {} by its shapes, while the global settings say {}", m.path,
                                       format_name(format), format_name(global)));
    }
    return format;
  }

  void read_quantized(StoredModule& module) {
    const ModuleShape& m = module.shape;
    const QuantFormat guess =
        settings_of(m.path).value_or(config.quantization.global.value_or(QuantFormat{QuantKind::Affine, 4, 64}));
    const StoredTensor& words = take(m.path + ".weight", words_shape(m, guess));
    const StoredTensor& scales = take(m.path + ".scales", scales_shape(m, guess));
    if (words.dtype != DType::U32) {
      fail(Code::Corrupt, "{}: dtype {}, wanted U32 (packed codes)", place(m.path + ".weight"), words.dtype_text);
    }
    const QuantFormat format = format_of(module, words, scales);
    module.weight = {.format = format,
                     .n = m.n,
                     .k = m.k,
                     .scale_dtype = DType::U8,
                     .words = words.bytes.data(),
                     .scales = scales.bytes.data()};
    if (format.kind == QuantKind::Affine) {
      module.weight.scale_dtype = float_dtype(m.path + ".scales", scales);
      const std::string name = m.path + ".biases";
      const StoredTensor& biases = take(name, scales.shape);
      check_shape(name, biases, scales.shape);
      if (biases.dtype != scales.dtype) {
        fail(Code::Corrupt, "{}: dtype {}, wanted {} as the scales", place(name), biases.dtype_text, scales.dtype_text);
      }
      module.weight.biases = biases.bytes.data();
    }
    if (format.kind == QuantKind::Nvfp4) module.weight.global_scale = read_global_scale(m.path);
  }

  /// MLX multiplies nvfp4 weights by global_scale / (448 * 6): the largest E4M3 scale times the largest E2M1 code.
  float read_global_scale(const std::string& path) {
    const std::string name = path + ".global_scale";
    const StoredTensor* tensor = find(name);
    if (!tensor) return 1.0f;
    if (tensor->dtype != DType::F32 || tensor->bytes.size() != sizeof(float)) {
      fail(Code::Corrupt, "{}: dtype {} of shape {}, wanted one F32", place(name), tensor->dtype_text,
           shape_text(tensor->shape));
    }
    float value = 0;
    std::memcpy(&value, tensor->bytes.data(), sizeof value);
    return value / (448.0f * 6.0f);
  }

  void read_module(const ModuleShape& shape) {
    StoredModule module{.shape = shape, .weight = {}, .has_settings = config.quantization.modules.contains(shape.path)};
    const std::optional<QuantFormat> listed = settings_of(shape.path);
    const bool can_quantize = shape.kind != ModuleKind::Norm;
    const bool is_quantized = can_quantize && (listed ? listed->kind != QuantKind::Dense
                                                      : out.shards_.find(shape.path + ".scales") != nullptr);
    if (is_quantized) {
      read_quantized(module);
    } else {
      read_dense(module);
    }
    if (shape.has_bias) {
      const std::string name = shape.path + ".bias";
      module.bias = &take(name, {uint64_t(shape.n)});
      float_dtype(name, *module.bias);
      check_shape(name, *module.bias, {uint64_t(shape.n)});
      out.weight_bytes_ += module.bias->bytes.size();
    }
    out.weight_bytes_ += loft::weight_bytes(module.weight);
    out.by_path_[shape.path] = out.modules_.size();
    out.modules_.push_back(std::move(module));
  }

  /// True when the head is the embedding: config says so, or says nothing and no head is in the files. A head that is
  /// there all the same is dropped.
  bool is_tied(const std::string& path) {
    const bool is_there = out.shards_.find(path + ".weight") != nullptr;
    if (!config.tie_word_embeddings.value_or(!is_there)) return false;
    std::string dropped;
    for (const char* part : {".weight", ".scales", ".biases", ".global_scale"}) {
      if (find(path + part)) dropped += fmt::format("{}{}{}", dropped.empty() ? "" : ", ", path, part);
    }
    if (!dropped.empty()) {
      out.notes_.push_back(fmt::format("dropped {}: tie_word_embeddings is true", dropped));
    }
    return true;
  }

  void check_all_taken() {
    std::vector<std::string> unknown, ignored;
    for (const std::string& name : out.shards_.names()) {
      if (taken.contains(name)) continue;
      (is_ignored(name) ? ignored : unknown).push_back(name);
    }
    if (!ignored.empty()) {
      out.notes_.push_back(fmt::format("ignored {} tensors that the language model does not use ({}, ...)",
                                       ignored.size(), ignored.front()));
    }
    if (unknown.empty()) return;
    const size_t n_shown = std::min<size_t>(unknown.size(), 10);
    fail(Code::Corrupt, "{}: {} tensors belong to no module of model_type {}: {}{}", folder, unknown.size(),
         config.model_type, fmt::join(unknown.begin(), unknown.begin() + std::ptrdiff_t(n_shown), ", "),
         unknown.size() > n_shown ? ", ..." : "");
  }
};

Checkpoint::Checkpoint(const std::filesystem::path& folder, const ModelConfig& config,
                       const std::vector<ModuleShape>& modules)
    : shards_(Shards::open(folder)) {
  ModuleReader reader{.config = config, .folder = folder.string(), .out = *this, .taken = {}};
  for (const ModuleShape& shape : modules) {
    if (shape.kind == ModuleKind::Head) is_tied_ = reader.is_tied(shape.path);
    if (shape.kind != ModuleKind::Head || !is_tied_) reader.read_module(shape);
  }
  reader.check_all_taken();
}

const StoredModule* Checkpoint::find(const std::string& path) const {
  const auto it = by_path_.find(path);
  return it == by_path_.end() ? nullptr : &modules_[it->second];
}

const StoredModule& Weights::stored(const std::string& path) const {
  const StoredModule* module = checkpoint_.find(path);
  LOFT_CHECK_MSG(module, "{} is not in the architecture's list of modules", path);
  return *module;
}

const void* Weights::place(const void* bytes, size_t n_bytes) {
  if (!bytes) return nullptr;
  const auto it = placed_.find(bytes);
  if (it != placed_.end()) return it->second;
  buffers_.push_back(backend_->place(bytes, n_bytes));
  placed_[bytes] = buffers_.back().data();
  return buffers_.back().data();
}

QuantWeight Weights::table(const std::string& path) {
  QuantWeight w = stored(path).weight;
  const size_t scale_bytes = scale_row_bytes(w) * size_t(w.n);
  w.words = place(w.words, word_row_bytes(w) * size_t(w.n));
  w.scales = place(w.scales, scale_bytes);
  w.biases = place(w.biases, scale_bytes);
  return w;
}

Tensor Weights::vector(const StoredTensor& tensor, int64_t n) {
  buffers_.push_back(backend_->allocate(tensor.bytes.size()));
  backend_->upload(buffers_.back().data(), tensor.bytes.data(), tensor.bytes.size());
  return make_tensor(buffers_.back().data(), *tensor.dtype, {n});
}

Linear Weights::linear(const std::string& path) {
  const StoredModule& module = stored(path);
  Linear layer;
  layer.name = path;
  layer.weight = table(path);
  if (module.bias) layer.bias = vector(*module.bias, module.shape.n);
  return layer;
}

Tensor Weights::norm(const std::string& path) {
  const StoredModule& module = stored(path);
  const StoredTensor view{
      .dtype_text = {},
      .dtype = module.weight.dense_dtype,
      .shape = {uint64_t(module.shape.n)},
      .bytes = {static_cast<const uint8_t*>(module.weight.words), loft::weight_bytes(module.weight)}};
  return vector(view, module.shape.n);
}

Linear Weights::head(const std::string& path, const std::string& embedding_path) {
  if (!checkpoint_.is_tied()) return linear(path);
  Linear layer;
  layer.name = embedding_path;
  layer.weight = table(embedding_path);
  return layer;
}

}  // namespace loft
