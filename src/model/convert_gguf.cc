// model: which GGUF architectures convert, and how their tensors and keys are called in an MLX checkpoint. What enters:
// an opened file. What leaves: config.json and the list of tensors to pack. A new architecture is one row in kArchs.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <span>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/convert_steps.h"

namespace loft {
namespace {

enum class Dim : uint8_t { None, Hidden, Inter, QRows, KvRows, HeadDim, Vocab };
enum class Need : uint8_t { Always, Optional };
enum class Rope : uint8_t { None, Q, K };  // rows that the GGUF writer interleaves, in architectures that do so

/// One tensor: its GGUF name, the module of MLX, its shape [rows, cols] (cols None: a vector of `rows`).
struct NameRow {
  const char* gguf;
  const char* module;
  Dim rows;
  Dim cols;
  Need need = Need::Always;
  Rope rope = Rope::None;
};

constexpr NameRow kModelNames[] = {
    {"token_embd", "model.embed_tokens", Dim::Vocab, Dim::Hidden},
    {"output_norm", "model.norm", Dim::Hidden, Dim::None},
    {"output", "lm_head", Dim::Vocab, Dim::Hidden, Need::Optional},
};

#define LOFT_ATTENTION_AND_MLP_NAMES                                                                                \
  {"attn_norm", "input_layernorm", Dim::Hidden, Dim::None},                                                         \
      {"attn_q", "self_attn.q_proj", Dim::QRows, Dim::Hidden, Need::Always, Rope::Q},                               \
      {"attn_k", "self_attn.k_proj", Dim::KvRows, Dim::Hidden, Need::Always, Rope::K},                              \
      {"attn_v", "self_attn.v_proj", Dim::KvRows, Dim::Hidden},                                                     \
      {"attn_output", "self_attn.o_proj", Dim::Hidden, Dim::QRows},                                                 \
      {"ffn_gate", "mlp.gate_proj", Dim::Inter, Dim::Hidden}, {"ffn_up", "mlp.up_proj", Dim::Inter, Dim::Hidden}, { \
    "ffn_down", "mlp.down_proj", Dim::Hidden, Dim::Inter                                                            \
  }

constexpr NameRow kLlamaNames[] = {
    LOFT_ATTENTION_AND_MLP_NAMES,
    {"ffn_norm", "post_attention_layernorm", Dim::Hidden, Dim::None},
};

constexpr NameRow kGemma3Names[] = {
    LOFT_ATTENTION_AND_MLP_NAMES,
    {"attn_q_norm", "self_attn.q_norm", Dim::HeadDim, Dim::None},
    {"attn_k_norm", "self_attn.k_norm", Dim::HeadDim, Dim::None},
    {"post_attention_norm", "post_attention_layernorm", Dim::Hidden, Dim::None},
    {"ffn_norm", "pre_feedforward_layernorm", Dim::Hidden, Dim::None},
    {"post_ffw_norm", "post_feedforward_layernorm", Dim::Hidden, Dim::None},
};

struct Sizes {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t inter = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
};

struct ArchRow {
  const char* arch;        // general.architecture
  const char* model_type;  // of MLX
  const char* hf_class;    // config.json "architectures"
  std::span<const NameRow> layer_names;
  bool interleaved_rope;  // q and k rows are stored permuted
  float norm_offset;      // added to norm weights by the GGUF writer
  bool may_have_biases;
  void (*more_config)(const GgufFile& file, const Sizes& sizes, OrderedJson& config, ConvertReport& report);
};

void llama_config(const GgufFile& file, const Sizes&, OrderedJson& config, ConvertReport& report);
void gemma3_config(const GgufFile& file, const Sizes& sizes, OrderedJson& config, ConvertReport& report);

constexpr ArchRow kArchs[] = {
    {"llama", "llama", "LlamaForCausalLM", kLlamaNames, true, 0.0f, true, llama_config},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", kGemma3Names, false, 1.0f, false, gemma3_config},
};

const ArchRow& find_arch(const GgufFile& file) {
  const std::string arch = file.take_text("general.architecture");
  std::string known;
  for (const ArchRow& row : kArchs) {
    if (arch == row.arch) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.arch);
  }
  fail(Code::Unsupported, "{}: general.architecture \"{}\" cannot be converted; these can: {}", file.where(), arch,
       known);
}

// A float under `key`, finite and above 0, as the shortest decimal that is this f32: the file has 1e-05 as f32, and
// config.json should not say 9.999999747378752e-06. Absent: the fallback, if there is one.
double take_positive(const GgufFile& file, const std::string& key, std::optional<double> fallback = {}) {
  if (fallback && !file.find_number(key)) return *fallback;
  const double v = file.take_number(key);
  if (!(v > 0) || !std::isfinite(float(v)))
    fail(Code::Corrupt, "{}: {}: {}, wanted a number above 0", file.where(), key, v);
  return std::stod(fmt::format("{}", float(v)));
}

int64_t take_size(const GgufFile& file, const std::string& key, int64_t largest) {
  const int64_t v = file.take_int(key);
  if (v < 1 || v > largest) fail(Code::Corrupt, "{}: {}: {}, wanted 1 to {}", file.where(), key, v, largest);
  return v;
}

int64_t size_or(const GgufFile& file, const std::string& key, int64_t fallback, int64_t largest) {
  return file.find_int(key) ? take_size(file, key, largest) : fallback;
}

Sizes read_sizes(const GgufFile& file, const ArchRow& arch) {
  const std::string p = arch.arch;
  Sizes s;
  s.layers = take_size(file, p + ".block_count", 4096);
  s.hidden = take_size(file, p + ".embedding_length", 1 << 20);
  s.inter = take_size(file, p + ".feed_forward_length", 1 << 24);
  s.heads = take_size(file, p + ".attention.head_count", 1 << 16);
  s.kv_heads = size_or(file, p + ".attention.head_count_kv", s.heads, 1 << 16);
  const int64_t by_rope = arch.interleaved_rope
                              ? size_or(file, p + ".rope.dimension_count", s.hidden / s.heads, 1 << 16)
                              : s.hidden / s.heads;
  s.head_dim = size_or(file, p + ".attention.key_length", by_rope, 1 << 16);
  if (s.head_dim < 2 || s.head_dim % 2 != 0 || s.heads % s.kv_heads != 0) {
    fail(Code::Corrupt, "{}: {} heads, {} for keys, of size {}: do not fit", file.where(), s.heads, s.kv_heads,
         s.head_dim);
  }
  const auto values = file.find_int(p + ".attention.value_length");
  const auto rotated = file.find_int(p + ".rope.dimension_count");
  if (values.value_or(s.head_dim) != s.head_dim || rotated.value_or(s.head_dim) != s.head_dim) {
    fail(Code::Unsupported, "{}: head size {} with value_length {} and rope.dimension_count {}: wanted all equal",
         file.where(), s.head_dim, values.value_or(s.head_dim), rotated.value_or(s.head_dim));
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.dims.size() != 2) {
    fail(Code::Corrupt, "{}: token_embd.weight: missing, or no matrix", file.where());
  }
  s.vocab = int64_t(embedding->second.dims[1]);
  return s;
}

int64_t dim_value(Dim dim, const Sizes& s) {
  switch (dim) {
    case Dim::None:
      return 0;
    case Dim::Hidden:
      return s.hidden;
    case Dim::Inter:
      return s.inter;
    case Dim::QRows:
      return s.heads * s.head_dim;
    case Dim::KvRows:
      return s.kv_heads * s.head_dim;
    case Dim::HeadDim:
      return s.head_dim;
    case Dim::Vocab:
      return s.vocab;
  }
  return 0;
}

// Takes tensors by name, checks their shapes, and in the end names those that nobody took.
class StepList {
 public:
  StepList(const GgufFile& file, const ArchRow& arch, const Sizes& sizes) : file_(file), arch_(arch), sizes_(sizes) {}

  void take(const NameRow& row, const std::string& prefix, const std::string& module_prefix) {
    const std::string name = fmt::format("{}{}.weight", prefix, row.gguf);
    const GgufTensor* t = find(name);
    if (!t) {
      if (row.need == Need::Optional) return;
      fail(Code::Corrupt, "{}: {}: missing, architecture {} has it", file_.where(), name, arch_.arch);
    }
    check_shape(name, *t, row.rows, row.cols);
    if (t->type->target == GgufTarget::Refuse) {
      fail(Code::Unsupported, "{}: {}: tensors of type {} cannot be converted", file_.where(), name, t->type->name);
    }
    const bool is_norm = row.cols == Dim::None;
    if (is_norm && t->type->target != GgufTarget::Dense) {
      fail(Code::Unsupported, "{}: {}: type {}, wanted a float type", file_.where(), name, t->type->name);
    }
    const int64_t heads = !arch_.interleaved_rope ? 0
                          : row.rope == Rope::Q   ? sizes_.heads
                          : row.rope == Rope::K   ? sizes_.kv_heads
                                                  : 0;
    WeightStep step{.source = name, .tensor = t, .module = module_prefix + row.module, .interleaved_heads = heads};
    if (is_norm) step.subtract = arch_.norm_offset;
    steps.push_back(step);
    if (is_norm || !arch_.may_have_biases) return;
    const std::string bias = fmt::format("{}{}.bias", prefix, row.gguf);
    if (const GgufTensor* b = find(bias)) {
      check_shape(bias, *b, row.rows, Dim::None);
      if (b->type->target != GgufTarget::Dense) {
        fail(Code::Unsupported, "{}: {}: type {}, wanted a float type", file_.where(), bias, b->type->name);
      }
      steps.push_back({.source = bias, .tensor = b, .module = step.module, .part = "bias", .interleaved_heads = heads});
    }
  }

  const GgufTensor* find(const std::string& name) {
    const auto it = file_.tensors().find(name);
    if (it == file_.tensors().end()) return nullptr;
    taken_.insert(name);
    return &it->second;
  }

  void expect_all_taken() const {
    std::string left;
    int n = 0;
    for (const auto& [name, tensor] : file_.tensors()) {
      if (!taken_.contains(name) && ++n <= 10) left += fmt::format(" {} ({})", name, tensor.type->name);
    }
    if (n > 0) {
      fail(Code::Unsupported, "{}: {} tensors have no place in architecture {}:{}{}", file_.where(), n, arch_.arch,
           left, n > 10 ? " ..." : "");
    }
  }

  std::vector<WeightStep> steps;

 private:
  void check_shape(const std::string& name, const GgufTensor& t, Dim rows, Dim cols) const {
    std::vector<uint64_t> wanted;
    if (cols != Dim::None) wanted.push_back(uint64_t(dim_value(cols, sizes_)));
    wanted.push_back(uint64_t(dim_value(rows, sizes_)));
    if (t.dims != wanted) {
      fail(Code::Corrupt, "{}: {}: shape [{}], wanted [{}] (innermost first)", file_.where(), name,
           fmt::join(t.dims, ", "), fmt::join(wanted, ", "));
    }
  }

  const GgufFile& file_;
  const ArchRow& arch_;
  const Sizes& sizes_;
  std::set<std::string> taken_;
};

// MLX gives all four projections of attention, or all three of the MLP, a bias or none.
bool has_all_or_no_biases(const GgufFile& file, const Sizes& s, std::span<const char* const> names) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    for (const char* name : names) n += file.tensors().contains(fmt::format("blk.{}.{}.bias", layer, name)) ? 1 : 0;
  }
  if (n != 0 && n != s.layers * int64_t(names.size())) {
    fail(Code::Unsupported, "{}: {} of {} biases of {}: wanted all or none", file.where(), n,
         s.layers * int64_t(names.size()), fmt::join(names, ", "));
  }
  return n != 0;
}

OrderedJson rope_scaling(const GgufFile& file, const std::string& arch, bool yarn_too) {
  const std::string p = arch + ".rope.scaling.";
  const std::string type = file.find_text(p + "type").value_or("linear");
  OrderedJson scaling;
  if (type == "none") return scaling;
  const double factor = take_positive(file, p + "factor", take_positive(file, arch + ".rope.scale_linear", 1.0));
  if (factor == 1.0) return scaling;
  if (type != "linear" && !(type == "yarn" && yarn_too)) {
    fail(Code::Unsupported, "{}: {}type \"{}\" cannot be converted for architecture {}", file.where(), p, type, arch);
  }
  scaling["rope_type"] = type;
  scaling["factor"] = factor;
  if (type == "yarn") {
    scaling["original_max_position_embeddings"] = take_size(file, p + "original_context_length", int64_t(1) << 40);
  }
  return scaling;
}

// The divisor of each inverse frequency under rope_type llama3, as transformers computes it.
double llama3_divisor(double inv_freq, double factor, double original) {
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  const double turns = original * inv_freq / (2 * std::numbers::pi);
  if (turns > kHigh) return 1;
  if (turns < kLow) return factor;
  const double smooth = (turns - kLow) / (kHigh - kLow);
  return 1 / ((1 - smooth) / factor + smooth);
}

// The GGUF writer leaves llama3 scaling as a tensor of divisors. Its largest entry is the factor; the original context
// is the power of two that gives all the other entries.
OrderedJson llama3_scaling(const GgufFile& file, const GgufTensor& t, double theta, int64_t head_dim) {
  std::vector<float> divisors(t.n_values);
  if (t.type->target != GgufTarget::Dense || t.dims.size() != 1 || t.n_values != uint64_t(head_dim / 2)) {
    fail(Code::Corrupt, "{}: rope_freqs.weight: wanted {} floats", file.where(), head_dim / 2);
  }
  decode_gguf(*t.type, t.bytes.data(), int64_t(t.n_values), divisors.data());
  double factor = 1;
  for (const float d : divisors) {
    if (!(d > 0) || !std::isfinite(d))
      fail(Code::Corrupt, "{}: rope_freqs.weight: {}, wanted numbers above 0", file.where(), d);
    factor = std::max(factor, double(d));
  }
  OrderedJson scaling;
  if (factor == 1.0) return scaling;
  for (int64_t original = 512; original <= 1 << 20; original *= 2) {
    bool fits = true;
    for (size_t i = 0; i < divisors.size(); ++i) {
      const double inv_freq = std::pow(theta, -2.0 * double(i) / double(head_dim));
      const double wanted = llama3_divisor(inv_freq, factor, double(original));
      fits = fits && std::fabs(double(divisors[i]) - wanted) <= 1e-4 * wanted;
    }
    if (!fits) continue;
    scaling["rope_type"] = "llama3";
    scaling["factor"] = std::stod(fmt::format("{}", float(factor)));
    scaling["low_freq_factor"] = 1.0;
    scaling["high_freq_factor"] = 4.0;
    scaling["original_max_position_embeddings"] = original;
    return scaling;
  }
  fail(Code::Unsupported, "{}: rope_freqs.weight: is no llama3 scaling (largest entry {}, factors 1 and 4)",
       file.where(), factor);
}

void llama_config(const GgufFile& file, const Sizes& s, OrderedJson& config, ConvertReport& report) {
  const double theta = take_positive(file, "llama.rope.freq_base", 10000.0);
  config["rope_theta"] = theta;
  OrderedJson scaling = rope_scaling(file, "llama", true);
  const auto freqs = file.tensors().find("rope_freqs.weight");
  if (freqs != file.tensors().end()) {
    const OrderedJson llama3 = llama3_scaling(file, freqs->second, theta, s.head_dim);
    if (!llama3.is_null() && !scaling.is_null()) {
      fail(Code::Unsupported, "{}: rope_freqs.weight beside llama.rope.scaling.type", file.where());
    }
    if (!llama3.is_null()) {
      scaling = llama3;
      report.notes.push_back(fmt::format("rope_freqs.weight became rope_scaling {}", dump_json(llama3)));
    }
  }
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
  constexpr const char* kAttention[] = {"attn_q", "attn_k", "attn_v", "attn_output"};
  constexpr const char* kMlp[] = {"ffn_gate", "ffn_up", "ffn_down"};
  config["attention_bias"] = has_all_or_no_biases(file, s, kAttention);
  config["mlp_bias"] = has_all_or_no_biases(file, s, kMlp);
  config["hidden_act"] = "silu";
}

void gemma3_config(const GgufFile& file, const Sizes& s, OrderedJson& config, ConvertReport& report) {
  config["rope_theta"] = take_positive(file, "gemma3.rope.freq_base", 1e6);
  config["rope_local_base_freq"] = take_positive(file, "gemma3.rope.freq_base_swa", 10000.0);
  const OrderedJson scaling = rope_scaling(file, "gemma3", false);
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
  // The 27B model alone scales queries by hidden / heads; the file does not say so, and its 62 layers tell it apart.
  config["query_pre_attn_scalar"] = s.layers == 62 ? s.hidden / s.heads : s.head_dim;
  config["sliding_window"] = take_size(file, "gemma3.attention.sliding_window", int64_t(1) << 40);
  config["sliding_window_pattern"] = 6;
  if (file.find_number("gemma3.final_logit_softcapping")) {
    config["final_logit_softcapping"] = take_positive(file, "gemma3.final_logit_softcapping");
  }
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = false;
  report.notes.push_back(
      "assumed, since a GGUF file does not hold them: every 6th layer global, local rope base 10000");
}

OrderedJson make_config(const GgufFile& file, const ArchRow& arch, const Sizes& s, const SpecialIds& ids,
                        ConvertReport& report) {
  const std::string p = arch.arch;
  OrderedJson c;
  c["architectures"] = {arch.hf_class};
  c["model_type"] = arch.model_type;
  c["hidden_size"] = s.hidden;
  c["num_hidden_layers"] = s.layers;
  c["intermediate_size"] = s.inter;
  c["num_attention_heads"] = s.heads;
  c["num_key_value_heads"] = s.kv_heads;
  c["head_dim"] = s.head_dim;
  c["vocab_size"] = s.vocab;
  c["max_position_embeddings"] = take_size(file, p + ".context_length", int64_t(1) << 40);
  c["rms_norm_eps"] = take_positive(file, p + ".attention.layer_norm_rms_epsilon");
  c["tie_word_embeddings"] = !file.tensors().contains("output.weight");
  arch.more_config(file, s, c, report);
  if (ids.bos >= 0) c["bos_token_id"] = ids.bos;
  if (ids.stop.size() == 1) c["eos_token_id"] = ids.stop[0];
  if (ids.stop.size() > 1) c["eos_token_id"] = ids.stop;
  if (ids.pad >= 0) c["pad_token_id"] = ids.pad;
  return c;
}

OrderedJson settings(const QuantFormat& format) {
  OrderedJson entry;
  entry["group_size"] = format.group;
  entry["bits"] = format.bits;
  entry["mode"] = format_row(format.kind).name;
  return entry;
}

}  // namespace

ConvertReport convert_gguf(const GgufFile& file, ScaleDType scales, const std::filesystem::path& folder,
                           const ProgressFn& progress) {
  if (const int64_t n_parts = file.find_int("split.count").value_or(1); n_parts > 1) {
    fail(Code::Unsupported, "{}: one of {} parts of a split model; join them first (llama-gguf-split --merge)",
         file.where(), n_parts);
  }
  const ArchRow& arch = find_arch(file);
  const Sizes sizes = read_sizes(file, arch);
  ConvertReport report;
  report.source_kind = fmt::format("gguf {}", arch.arch);
  report.model_type = arch.model_type;

  StepList list(file, arch, sizes);
  for (const NameRow& row : kModelNames) list.take(row, "", "");
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    for (const NameRow& row : arch.layer_names) list.take(row, prefix, fmt::format("model.layers.{}.", layer));
  }
  if (arch.interleaved_rope) list.find("rope_freqs.weight");  // becomes a part of config.json
  list.expect_all_taken();

  const SpecialIds ids = write_gguf_tokenizer(file, folder, report);
  OrderedJson config = make_config(file, arch, sizes, ids, report);
  const auto* tokens = file.find_texts("tokenizer.ggml.tokens");
  if (tokens && int64_t(tokens->size()) > sizes.vocab) {
    fail(Code::Corrupt, "{}: {} tokens, but token_embd.weight has {} rows", file.where(), tokens->size(), sizes.vocab);
  }
  const WrittenWeights written = write_gguf_weights(scales, list.steps, folder, progress, report);
  config["torch_dtype"] = written.torch_dtype;
  if (written.global) {
    OrderedJson dict = settings(*written.global);
    for (const auto& [module, format] : written.others) dict[module] = settings(format);
    config["quantization"] = dict;
    config["quantization_config"] = dict;
  }
  write_text_file(folder / "config.json", dump_json(config, 2) + "\n");
  return report;
}

}  // namespace loft
