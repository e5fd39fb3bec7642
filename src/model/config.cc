// model: config.json to ModelConfig. Every number is checked against a range before anything is computed from it.
#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "model/arch_list.h"

namespace loft {
namespace {

struct RopeTypeRow {
  const char* name;
  RopeType type;
};
constexpr RopeTypeRow kRopeTypes[] = {
    {"default", RopeType::Default},
    {"linear", RopeType::Linear},
    {"llama3", RopeType::Llama3},
    {"yarn", RopeType::Yarn},
};

struct IntRange {
  const char* key;
  int64_t lo, hi;
};
// Far above any published model and far below what overflows a product of four of them.
constexpr IntRange kHiddenSize{"hidden_size", 1, 1 << 17};
constexpr IntRange kLayers{"num_hidden_layers", 1, 1024};
constexpr IntRange kHeads{"num_attention_heads", 1, 4096};
constexpr IntRange kKvHeads{"num_key_value_heads", 1, 4096};
constexpr IntRange kHeadDim{"head_dim", 2, 1024};
constexpr IntRange kIntermediate{"intermediate_size", 1, 1 << 20};
constexpr IntRange kVocab{"vocab_size", 1, 1 << 24};
constexpr IntRange kPositions{"max_position_embeddings", 1, 1 << 28};
constexpr IntRange kWindow{"sliding_window", 1, 1 << 28};
constexpr IntRange kPattern{"sliding_window_pattern", 1, 1024};

void check_range(double value, double lo, double hi, std::string_view key, std::string_view where) {
  if (!(value >= lo && value <= hi)) {
    fail(Code::Corrupt, "{}.{}: found {}, wanted a number from {} to {}", where, key, value, lo, hi);
  }
}

std::optional<int64_t> find_int(const Json& object, const IntRange& range, std::string_view where) {
  const std::optional<int64_t> value = loft::find<int64_t>(object, range.key, where);
  if (value && (*value < range.lo || *value > range.hi)) {
    fail(Code::Corrupt, "{}.{}: found {}, wanted {} to {}", where, range.key, *value, range.lo, range.hi);
  }
  return value;
}

int64_t take_int(const Json& object, const IntRange& range, int64_t fallback, std::string_view where) {
  if (const std::optional<int64_t> value = find_int(object, range, where)) return *value;
  if (fallback == 0) fail(Code::Corrupt, "{}.{}: missing, wanted an integer", where, range.key);
  return fallback;
}

double find_number(const Json& object, std::string_view key, double fallback, double hi, std::string_view where) {
  const std::optional<double> value = loft::find<double>(object, key, where);
  if (value) check_range(*value, 1e-12, hi, key, where);
  return value.value_or(fallback);
}

// ---- rope ----

/// The objects that may hold a rope setting, the one that wins first.
struct RopeSources {
  struct Source {
    const char* key;
    const Json* object;
  };
  std::vector<Source> objects;
  std::string_view where;

  template <class T>
  std::optional<T> find_setting(std::string_view key) const {
    for (const Source& source : objects) {
      const std::string place = fmt::format("{}.{}", where, source.key);
      if (const std::optional<T> value = loft::find<T>(*source.object, key, place)) return value;
    }
    return std::nullopt;
  }
  double number(std::string_view key, double fallback) const {
    const std::optional<double> value = find_setting<double>(key);
    if (value) check_range(*value, 1e-9, 1e12, key, where);
    return value.value_or(fallback);
  }
};

/// rope_parameters comes before rope_scaling; a family with two ropes nests them once more by the kind of layer.
RopeSources rope_sources(const Json& config, const char* layer_kind, std::string_view where) {
  RopeSources sources{.objects = {}, .where = where};
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* object = find_member(config, key);
    if (!object || object->is_null()) continue;
    if (!object->is_object()) {
      fail(Code::Corrupt, "{}.{}: found {}, wanted an object or null", where, key, brief(*object));
    }
    const Json* nested = find_member(*object, layer_kind);
    sources.objects.push_back({key, nested && nested->is_object() ? nested : object});
  }
  return sources;
}

RopeType read_rope_type(const RopeSources& sources) {
  std::optional<std::string> name = sources.find_setting<std::string>("rope_type");
  if (!name) name = sources.find_setting<std::string>("type");
  if (!name) return RopeType::Default;
  std::string known;
  for (const RopeTypeRow& row : kRopeTypes) {
    if (*name == row.name) return row.type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(Code::Unsupported, "{}: rope type \"{}\" is not implemented (implemented: {})", sources.where, *name, known);
}

void read_rope_scaling(const RopeSources& sources, RopeConfig& rope) {
  rope.type = read_rope_type(sources);
  if (rope.type == RopeType::Default) return;
  const std::optional<double> factor = sources.find_setting<double>("factor");
  if (!factor) {
    fail(Code::Corrupt, "{}: rope type \"{}\" without a factor", sources.where, rope_type_name(rope.type));
  }
  check_range(*factor, 1e-3, 1e6, "factor", sources.where);
  rope.factor = *factor;
  const double family_context = rope.type == RopeType::Llama3 ? 8192 : 4096;
  rope.original_max_positions = sources.number("original_max_position_embeddings", family_context);
  rope.low_freq_factor = sources.number("low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = sources.number("high_freq_factor", rope.high_freq_factor);
  if (rope.type == RopeType::Llama3 && rope.low_freq_factor >= rope.high_freq_factor) {
    fail(Code::Corrupt, "{}: low_freq_factor {} is not below high_freq_factor {}", sources.where, rope.low_freq_factor,
         rope.high_freq_factor);
  }
  rope.beta_fast = sources.number("beta_fast", rope.beta_fast);
  rope.beta_slow = sources.number("beta_slow", rope.beta_slow);
  if (const auto mscale = sources.find_setting<double>("mscale")) rope.mscale = *mscale;
  if (const auto all_dim = sources.find_setting<double>("mscale_all_dim")) rope.mscale_all_dim = *all_dim;
  check_range(rope.mscale, 0, 1e3, "mscale", sources.where);
  check_range(rope.mscale_all_dim, 0, 1e3, "mscale_all_dim", sources.where);
}

/// theta: nested value first, then the flat key, then the family's default; the source is kept for the summary.
void read_theta(const Json& config, const RopeSources& sources, const char* flat_key, RopeConfig& rope) {
  for (const RopeSources::Source& source : sources.objects) {
    const std::string place = fmt::format("{}.{}", sources.where, source.key);
    if (const std::optional<double> theta = loft::find<double>(*source.object, "rope_theta", place)) {
      rope.theta = *theta;
      rope.theta_source = source.key;
      break;
    }
  }
  if (rope.theta_source.empty()) {
    const std::optional<double> flat = loft::find<double>(config, flat_key, sources.where);
    rope.theta = flat.value_or(rope.theta);
    rope.theta_source = flat ? flat_key : "family default";
  }
  check_range(rope.theta, 1.0, 1e12, "rope_theta", sources.where);
}

void read_ropes(const Json& config, double default_theta, std::string_view where, ModelConfig& out) {
  for (const Json* object : {&config, find_member(config, "rope_parameters"), find_member(config, "rope_scaling")}) {
    if (!object) continue;
    const std::optional<double> partial = loft::find<double>(*object, "partial_rotary_factor", where);
    if (partial && *partial != 1.0) {
      fail(Code::Unsupported, "{}.partial_rotary_factor: found {}, only 1 is implemented", where, *partial);
    }
  }
  if (take_or<bool>(config, "rope_traditional", false, where)) {
    fail(Code::Unsupported, "{}.rope_traditional: true (interleaved rope) is not implemented", where);
  }
  const RopeSources global = rope_sources(config, "full_attention", where);
  out.rope.theta = default_theta;
  read_rope_scaling(global, out.rope);
  read_theta(config, global, "rope_theta", out.rope);

  // Sliding layers: their own nested object, else the flat key of Gemma 3; never the scaling of the full layers.
  RopeSources local = rope_sources(config, "sliding_attention", where);
  std::erase_if(local.objects, [&](const RopeSources::Source& source) {
    return find_member(*find_member(config, source.key), "sliding_attention") != source.object;
  });
  read_rope_scaling(local, out.local_rope);
  read_theta(config, local, "rope_local_base_freq", out.local_rope);
}

// ---- quantization ----

QuantFormat read_quant_format(const Json& object, std::string_view where) {
  const std::string mode = take_or<std::string>(object, "mode", "affine", where);
  const std::optional<QuantKind> kind = quant_kind_from_mode(mode);
  if (!kind || *kind == QuantKind::Dense) {
    fail(Code::Unsupported, "{}.mode: found \"{}\", wanted one of {}", where, mode, quant_mode_names());
  }
  const FormatRow& row = format_row(*kind);
  const int64_t bits = take_or<int64_t>(object, "bits", row.default_bits, where);
  const int64_t group = take_or<int64_t>(object, "group_size", row.default_group, where);
  if (bits < 1 || bits > 32 || group < 1 || group > 1024 || !row.is_valid(int(bits), int(group))) {
    fail(Code::Unsupported, "{}: {} bits in groups of {} are not part of mode {}", where, bits, group, mode);
  }
  return {.kind = *kind, .bits = int(bits), .group = int(group)};
}

/// Formats of other tools that MLX maps to one of its own modes.
std::optional<QuantFormat> format_of_quant_method(const Json& dict, std::string_view where) {
  const std::optional<std::string> method = loft::find<std::string>(dict, "quant_method", where);
  if (!method || find_member(dict, "bits")) return std::nullopt;
  const std::optional<QuantKind> kind = quant_kind_from_mode(*method);
  if (*method != "mxfp4" && *method != "mxfp8") {
    fail(Code::Unsupported, "{}.quant_method: \"{}\" is not read; convert the checkpoint with mlx_lm.convert", where,
         *method);
  }
  return QuantFormat{.kind = *kind, .bits = format_row(*kind).default_bits, .group = format_row(*kind).default_group};
}

QuantConfig read_quantization(const Json& dict, std::string_view where) {
  if (!dict.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object", where, brief(dict));
  QuantConfig out;
  out.global = format_of_quant_method(dict, where);
  if (!out.global) out.global = read_quant_format(dict, where);
  for (const auto& [key, value] : dict.items()) {
    const std::string place = fmt::format("{}[\"{}\"]", where, key);
    if (value.is_boolean() && key.find('.') == std::string::npos && key != "lm_head")
      continue;  // a flag of some writer
    if (value.is_boolean()) {
      out.modules[key] = value.get<bool>();
    } else if (value.is_object()) {
      out.modules[key] = read_quant_format(value, place);
    } else if (!value.is_null() && key.find('.') != std::string::npos) {
      fail(Code::Corrupt, "{}: found {}, wanted an object, true or false", place, brief(value));
    }
  }
  return out;
}

void read_quantization_of(const Json& top, const Json& text, std::string_view where, ModelConfig& out) {
  struct Place {
    const Json* object;
    const char* key;
  };
  for (const Place& place : {Place{&top, "quantization"}, Place{&top, "quantization_config"},
                             Place{&text, "quantization"}, Place{&text, "quantization_config"}}) {
    const Json* dict = find_member(*place.object, place.key);
    if (!dict || dict->is_null()) continue;
    out.quantization = read_quantization(*dict, fmt::format("{}.{}", where, place.key));
    return;
  }
}

// ---- the rest ----

void read_eos(const Json& config, std::string_view where, std::vector<int64_t>& out) {
  const Json* value = find_member(config, "eos_token_id");
  if (!value || value->is_null()) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > 1024) fail(Code::Corrupt, "{}.eos_token_id: {} ids, at most 1024 are read", where, list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer() || item < 0 || item > INT32_MAX) {
      fail(Code::Corrupt, "{}.eos_token_id: found {}, wanted an id or a list of ids", where, brief(*value));
    }
    const int64_t id = item.get<int64_t>();
    if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  }
}

/// layer_types, where given, says which layers slide; the window itself is sliding_window.
void read_layer_types(const Json& config, std::string_view where, ModelConfig& out) {
  const Json* types = find_member(config, "layer_types");
  if (!types || types->is_null()) return;
  if (!types->is_array() || int64_t(types->size()) != out.n_layers) {
    fail(Code::Corrupt, "{}.layer_types: found {}, wanted a list of {} names", where, brief(*types), out.n_layers);
  }
  for (const Json& type : *types) {
    if (type == "sliding_attention") {
      if (out.sliding_window == 0) fail(Code::Corrupt, "{}.layer_types: sliding layers without sliding_window", where);
      out.layer_windows.push_back(out.sliding_window);
    } else if (type == "full_attention") {
      out.layer_windows.push_back(0);
    } else {
      fail(Code::Unsupported, "{}.layer_types: {} is not implemented (full_attention, sliding_attention)", where,
           brief(type));
    }
  }
}

void read_sizes(const Json& config, const FamilyDefaults& defaults, std::string_view where, ModelConfig& out) {
  out.hidden_size = take_int(config, kHiddenSize, 0, where);
  out.n_layers = take_int(config, kLayers, 0, where);
  out.n_heads = take_int(config, kHeads, defaults.n_heads, where);
  out.n_kv_heads = take_int(config, kKvHeads, defaults.n_kv_heads ? defaults.n_kv_heads : out.n_heads, where);
  if (out.n_heads % out.n_kv_heads != 0) {
    fail(Code::Corrupt, "{}: {} attention heads do not divide among {} key-value heads", where, out.n_heads,
         out.n_kv_heads);
  }
  int64_t head_dim = defaults.head_dim;
  if (head_dim == 0 && out.hidden_size % out.n_heads == 0) head_dim = out.hidden_size / out.n_heads;
  out.head_dim = take_int(config, kHeadDim, head_dim, where);
  if (out.head_dim % 2 != 0 || out.head_dim < kHeadDim.lo || out.head_dim > kHeadDim.hi) {
    fail(Code::Corrupt, "{}.head_dim: found {}, wanted an even number from {} to {}", where, out.head_dim, kHeadDim.lo,
         kHeadDim.hi);
  }
  out.intermediate_size = take_int(config, kIntermediate, 0, where);
  out.vocab_size = take_int(config, kVocab, defaults.vocab_size, where);
  out.max_positions = take_int(config, kPositions, defaults.max_positions, where);
  out.sliding_window = find_int(config, kWindow, where).value_or(0);
  out.sliding_window_pattern = find_int(config, kPattern, where).value_or(0);
  out.rms_norm_eps = find_number(config, "rms_norm_eps", defaults.rms_norm_eps, 1.0, where);
  if (out.rms_norm_eps == 0) fail(Code::Corrupt, "{}.rms_norm_eps: missing, wanted a number", where);
  out.query_pre_attn_scalar = find_number(config, "query_pre_attn_scalar", 0, 1e6, where);
  out.final_logit_softcap = find_number(config, "final_logit_softcapping", 0, 1e6, where);
  out.attn_logit_softcap = find_number(config, "attn_logit_softcapping", 0, 1e6, where);
}

/// Keys that make other programs run code or compute in another way.
void refuse_keys(const Json& config, std::string_view where) {
  const Json* code = find_member(config, "model_file");
  if (code && !code->is_null()) {
    fail(Code::Unsupported, "{}.model_file: {} names code inside the checkpoint, which is never run", where,
         brief(*code));
  }
  if (const Json* map = find_member(config, "auto_map"); map && !map->is_null()) {
    log_info("{}.auto_map names code inside the checkpoint: never run, ignored", where);
  }
  if (take_or<bool>(config, "quantize_activations", false, where)) {
    fail(Code::Unsupported, "{}.quantize_activations: true is not implemented", where);
  }
}

FamilyDefaults merged(const FamilyDefaults& inner, const FamilyDefaults& outer) {
  FamilyDefaults out = inner;
  if (outer.n_heads) out.n_heads = outer.n_heads;
  if (outer.n_kv_heads) out.n_kv_heads = outer.n_kv_heads;
  if (outer.vocab_size) out.vocab_size = outer.vocab_size;
  if (outer.max_positions) out.max_positions = outer.max_positions;
  return out;
}

const ArchRow& arch_of(const std::string& model_type, std::string_view where) {
  const ArchRow* row = find_arch(model_type);
  if (!row) {
    fail(Code::Unsupported, "{}: model_type \"{}\" is not supported (supported: {})", where, model_type,
         supported_archs());
  }
  return *row;
}

ModelConfig config_from(const Json& top, std::string_view where) {
  if (!top.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object", where, brief(top));
  refuse_keys(top, where);
  ModelConfig out;
  out.model_type = take<std::string>(top, "model_type", where);
  const Json* text = &top;
  std::string text_where(where);
  FamilyDefaults outer;
  if (const WrapperRow* wrapper = find_wrapper(out.model_type)) {
    text = find_member(top, "text_config");
    if (!text || !text->is_object()) {
      fail(Code::Corrupt, "{}.text_config: missing, wanted an object (model_type {})", where, out.model_type);
    }
    text_where += ".text_config";
    refuse_keys(*text, text_where);
    out.wrapper_type = out.model_type;
    out.model_type = take_or<std::string>(*text, "model_type", wrapper->inner_type, text_where);
    out.tensor_prefix = wrapper->tensor_prefix;
    outer = wrapper->defaults;
    // The outer vocab_size stands before the inner one, as in mlx-lm.
    const std::optional<int64_t> vocab = find_int(top, kVocab, where);
    if (!vocab) outer.vocab_size = find_int(*text, kVocab, text_where).value_or(outer.vocab_size);
    if (vocab) outer.vocab_size = *vocab;
  }
  const ArchRow& arch = arch_of(out.model_type, text_where);
  const FamilyDefaults defaults = merged(arch.defaults, outer);
  read_sizes(*text, defaults, text_where, out);
  if (!out.wrapper_type.empty()) out.vocab_size = outer.vocab_size;
  out.attention_bias = take_or<bool>(*text, "attention_bias", false, text_where);
  out.mlp_bias = take_or<bool>(*text, "mlp_bias", false, text_where);
  out.tie_word_embeddings = loft::find<bool>(*text, "tie_word_embeddings", text_where);
  if (!out.tie_word_embeddings) out.tie_word_embeddings = loft::find<bool>(top, "tie_word_embeddings", where);
  out.activation = take_or<std::string>(*text, "hidden_activation", "", text_where);
  if (out.activation.empty()) out.activation = take_or<std::string>(*text, "hidden_act", "", text_where);
  read_layer_types(*text, text_where, out);
  read_ropes(*text, defaults.rope_theta, text_where, out);
  read_quantization_of(top, *text, where, out);
  read_eos(top, where, out.eos_token_ids);
  read_eos(*text, text_where, out.eos_token_ids);
  out.bos_token_id = loft::find<int64_t>(*text, "bos_token_id", text_where);
  if (!out.bos_token_id) out.bos_token_id = loft::find<int64_t>(top, "bos_token_id", where);
  arch.finish_config(out, text_where);
  return out;
}

}  // namespace

const char* rope_type_name(RopeType type) {
  for (const RopeTypeRow& row : kRopeTypes) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

ModelConfig parse_config(std::string_view json, std::string_view where) {
  return config_from(parse_json(json, where), where);
}

ModelConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return config_from(read_json_file(path), path.string());
}

}  // namespace loft
