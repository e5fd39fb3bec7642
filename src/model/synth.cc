// model: makes up the tensors of every module of an architecture, one after the other. See synth.h.
#include "model/synth.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/arch_list.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixer; fast enough that the disk is what limits.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float uniform() {  // [-1, 1)
    return float(int64_t(next()) >> 40) * 0x1p-23f;
  }
};

/// What a tensor's values are made of; `spread` is the wanted standard deviation of a weight.
enum class Fill : uint8_t { Codes, Fp8Codes, Scales, Biases, Fp4Scales, Fp8Scales, Nvfp4Scales, Dense, Norm };

struct PlannedTensor {
  TensorPlan plan;
  Fill fill;
  QuantFormat format;
  float spread;
  float center;  // Norm: the value around which weights lie
  uint64_t seed;
};

void store_float(float value, DType dtype, uint8_t* out) {
  const uint16_t bits = dtype == DType::BF16 ? f32_to_bf16(value) : f32_to_f16(value);
  if (dtype == DType::F32) {
    std::memcpy(out, &value, 4);
  } else {
    std::memcpy(out, &bits, 2);
  }
}

/// Uniform codes of b bits have the deviation (2^b - 1) / sqrt(12), for large b; exact: sqrt((4^b - 1) / 12).
float affine_scale(const PlannedTensor& t) {
  return t.spread / std::sqrt((std::pow(4.0f, float(t.format.bits)) - 1) / 12.0f);
}

// Root mean squares of the codes drawn below: all sixteen of E2M1, and E4M3 with exponents from 2^-3 to 2^0.
constexpr float kFp4Rms = 2.926f;
constexpr float kFp8Rms = 0.858f;

uint8_t nearest_e8m0(float value) {
  return uint8_t(127 + std::lround(std::log2(value)));
}
uint8_t nearest_e4m3(float value) {
  uint8_t best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    if (std::fabs(e4m3_to_f32(uint8_t(code)) - value) < std::fabs(e4m3_to_f32(best) - value)) best = uint8_t(code);
  }
  return best;
}

/// Fills n elements (words of codes, bytes of scales, floats). Scales of one tensor take two neighbouring values, so
/// that a kernel which mixes up groups is seen.
void fill_block(const PlannedTensor& t, Random& random, std::vector<uint8_t>& block) {
  const size_t width = dtype_bytes(t.plan.dtype);
  const auto each_float = [&](auto&& value) {
    for (size_t i = 0; i < block.size(); i += width) store_float(value(), t.plan.dtype, &block[i]);
  };
  const auto each_byte = [&](std::array<uint8_t, 2> choice) {
    for (uint8_t& byte : block) byte = choice[random.next() & 1];
  };
  const auto each_word = [&](uint64_t keep, uint64_t set) {
    for (size_t i = 0; i < block.size(); i += 8) {
      const uint64_t bits = (random.next() & keep) | set;
      std::memcpy(&block[i], &bits, std::min<size_t>(8, block.size() - i));
    }
  };
  switch (t.fill) {
    case Fill::Codes:
      return each_word(~uint64_t(0), 0);
    case Fill::Fp8Codes:  // sign, exponent 01xx, mantissa: neither tiny nor NaN
      return each_word(0x9f9f9f9f9f9f9f9fu, 0x2020202020202020u);
    case Fill::Scales:
      return each_float([&] { return affine_scale(t) * (random.next() & 1 ? 1.0f : 1.25f); });
    case Fill::Biases: {  // minus the middle code, so that weights have no common sign
      const float middle = -0.5f * float((1 << t.format.bits) - 1) * 1.125f;
      return each_float([&] { return affine_scale(t) * middle; });
    }
    case Fill::Fp4Scales: {
      const uint8_t scale = nearest_e8m0(t.spread / kFp4Rms);
      return each_byte({scale, uint8_t(scale - 1)});
    }
    case Fill::Fp8Scales: {
      const uint8_t scale = nearest_e8m0(t.spread / kFp8Rms);
      return each_byte({scale, uint8_t(scale - 1)});
    }
    case Fill::Nvfp4Scales: {
      const uint8_t scale = std::max<uint8_t>(2, nearest_e4m3(t.spread / kFp4Rms));
      return each_byte({scale, uint8_t(scale - 1)});
    }
    case Fill::Dense:
      return each_float([&] { return random.uniform() * t.spread * 1.7320508f; });
    case Fill::Norm:
      return each_float([&] { return t.center + 0.1f * random.uniform(); });
  }
}

/// FNV-1a of a name, so that a tensor's values depend on its own name and the seed, not on its neighbours.
uint64_t seed_of(const std::string& name, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

struct Planner {
  const SynthRequest& request;
  float norm_center;
  std::vector<PlannedTensor> tensors;

  void push(const std::string& name, DType dtype, std::vector<uint64_t> shape, PlannedTensor like) {
    like.plan = {.name = name, .dtype = dtype, .shape = std::move(shape)};
    like.seed = seed_of(name, request.seed);
    tensors.push_back(std::move(like));
  }

  QuantFormat format_of(const ModuleShape& m) const {
    QuantFormat format = request.format;
    const auto it = request.modules.find(m.path);
    if (it != request.modules.end()) {
      const bool* flag = std::get_if<bool>(&it->second);
      if (flag && !*flag) return {};
      if (!flag) format = std::get<QuantFormat>(it->second);
    }
    if (format.kind == QuantKind::Dense || m.k % format.group != 0) return {};
    if (!is_valid(format)) {
      fail(Code::BadRequest, "{} bits in groups of {} are no {}", format.bits, format.group,
           format_row(format.kind).name);
    }
    return format;
  }

  void add(const ModuleShape& m) {
    const uint64_t n = uint64_t(m.n), k = uint64_t(m.k);
    // Rows of the embedding have the size that norms expect; products keep the size of their input.
    const float spread = m.kind == ModuleKind::Embedding ? 0.5f : 1.0f / std::sqrt(float(std::max<int64_t>(m.k, 1)));
    PlannedTensor like{
        .plan = {}, .fill = Fill::Dense, .format = {}, .spread = spread, .center = norm_center, .seed = 0};
    if (m.kind == ModuleKind::Norm) {
      like.fill = Fill::Norm;
      push(m.path + ".weight", request.dtype, {n}, like);
      return;
    }
    like.format = format_of(m);
    if (like.format.kind == QuantKind::Dense) {
      push(m.path + ".weight", request.dtype, {n, k}, like);
    } else {
      add_quantized(m, like);
    }
    if (m.has_bias) {
      like.fill = Fill::Dense;
      like.spread = 0.1f;
      push(m.path + ".bias", request.dtype, {n}, like);
    }
  }

  void add_quantized(const ModuleShape& m, PlannedTensor like) {
    const QuantFormat& f = like.format;
    const std::vector<uint64_t> groups{uint64_t(m.n), uint64_t(m.k / f.group)};
    like.fill = f.kind == QuantKind::Mxfp8 ? Fill::Fp8Codes : Fill::Codes;
    push(m.path + ".weight", DType::U32, {uint64_t(m.n), uint64_t(m.k * f.bits / 32)}, like);
    like.fill = f.kind == QuantKind::Affine  ? Fill::Scales
                : f.kind == QuantKind::Mxfp8 ? Fill::Fp8Scales
                : f.kind == QuantKind::Mxfp4 ? Fill::Fp4Scales
                                             : Fill::Nvfp4Scales;
    push(m.path + ".scales", f.kind == QuantKind::Affine ? request.dtype : DType::U8, groups, like);
    if (f.kind != QuantKind::Affine) return;
    like.fill = Fill::Biases;
    push(m.path + ".biases", request.dtype, groups, like);
  }
};

void write_weights(const std::filesystem::path& folder, const std::vector<PlannedTensor>& tensors,
                   uint64_t shard_bytes) {
  constexpr size_t kBlockBytes = size_t(1) << 20;  // a multiple of every element width
  std::vector<TensorPlan> plan;
  for (const PlannedTensor& t : tensors) plan.push_back(t.plan);
  SafetensorsWriter writer(folder, plan, shard_bytes);
  std::vector<uint8_t> block;
  for (const PlannedTensor& t : tensors) {
    Random random{t.seed};
    for (uint64_t left = t.plan.bytes(); left > 0; left -= block.size()) {
      block.resize(size_t(std::min<uint64_t>(left, kBlockBytes)));
      fill_block(t, random, block);
      writer.append(block);
    }
  }
  writer.finish();
}

Json format_json(const QuantFormat& f) {
  return {{"bits", f.bits}, {"group_size", f.group}, {"mode", format_row(f.kind).name}};
}

/// config.json with the quantization dict, under both of its names as mlx-lm writes it.
std::string config_text(const SynthRequest& request, const std::string& base) {
  Json config = parse_json(base, "config");
  if (request.format.kind != QuantKind::Dense) {
    Json dict = format_json(request.format);
    for (const auto& [path, value] : request.modules) {
      const bool* flag = std::get_if<bool>(&value);
      dict[path] = flag ? Json(*flag) : format_json(std::get<QuantFormat>(value));
    }
    config["quantization"] = dict;
    config["quantization_config"] = dict;
  }
  return dump_json(config, 4);
}

/// The letter that byte-level BPE writes for a byte: printable ones stand for themselves, the others follow from
/// U+0100.
std::string byte_letter(int byte) {
  static const std::array<int, 256> kCodePoints = [] {
    std::array<int, 256> points{};
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool is_printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      points[size_t(b)] = is_printable ? b : next++;
    }
    return points;
  }();
  const int point = kCodePoints[size_t(byte)];
  if (point < 0x80) return std::string(1, char(point));
  return {char(0xc0 | (point >> 6)), char(0x80 | (point & 0x3f))};
}

/// Byte-level BPE without merges: 256 bytes, one end token, then words that only decoding uses, up to the vocabulary.
void write_tokenizer(const std::filesystem::path& folder, int64_t vocab_size) {
  Json vocab = Json::object();
  const int64_t n_bytes = std::min<int64_t>(vocab_size, 256);
  for (int64_t id = 0; id < n_bytes; ++id) vocab[byte_letter(int(id))] = id;
  for (int64_t id = 257; id < vocab_size; ++id) vocab[fmt::format("\u0120w{}", id)] = id;
  Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}},
  };
  Json settings = {{"model_max_length", 1000000}};
  if (vocab_size > 256) {
    tokenizer["added_tokens"].push_back({{"id", 256},
                                         {"content", "<|end|>"},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}});
    settings["eos_token"] = "<|end|>";
  }
  write_text_file(folder / "tokenizer.json", dump_json(tokenizer));
  write_text_file(folder / "tokenizer_config.json", dump_json(settings, 4));
}

/// A folder under a temporary name: renamed by commit(), else removed with all that is in it.
struct TemporaryFolder {
  std::filesystem::path path;
  explicit TemporaryFolder(const std::filesystem::path& dst) : path(dst) {
    path += fmt::format(".partial-{}", ::getpid());
    std::error_code error;
    std::filesystem::remove_all(path, error);
    std::filesystem::create_directories(path, error);
    if (error) fail(Code::BadRequest, "{}: cannot be made: {}", path.string(), error.message());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  void commit(const std::filesystem::path& dst) {
    std::error_code error;
    std::filesystem::rename(path, dst, error);
    if (error) fail(Code::BadRequest, "{}: cannot be made: {}", dst.string(), error.message());
    path.clear();
  }
};

/// A head of its own is written only where the config says in so many words that it is not tied.
bool wants_head(const std::string& config_text) {
  const Json config = parse_json(config_text, "config");
  const Json* inner = find_member(config, "text_config");
  for (const Json* object : {&config, inner}) {
    const Json* tie = object ? find_member(*object, "tie_word_embeddings") : nullptr;
    if (tie && *tie == false) return true;
  }
  return false;
}

std::string base_config(const SynthRequest& request) {
  if (request.shape.empty()) return request.config_json;
  for (const SynthShape& row : synth_shapes()) {
    if (request.shape == row.name) return row.config_json;
  }
  fail(Code::BadRequest, "shape \"{}\" is not known (known: {})", request.shape, synth_shape_names());
}

}  // namespace

void synth_checkpoint(const SynthRequest& request, const std::filesystem::path& dst) {
  if (!is_float(request.dtype)) fail(Code::BadRequest, "dtype {} is no float", dtype_name(request.dtype));
  if (std::filesystem::exists(dst)) fail(Code::BadRequest, "{}: exists already", dst.string());
  const std::string text = config_text(request, base_config(request));
  const ModelConfig config = parse_config(text, request.shape.empty() ? "config" : request.shape);
  Planner planner{
      .request = request, .norm_center = config.model_type.starts_with("gemma") ? 0.0f : 1.0f, .tensors = {}};
  for (const ModuleShape& m : find_arch(config.model_type)->modules(config)) {
    if (m.kind == ModuleKind::Head && !wants_head(text)) continue;
    planner.add(m);
  }
  for (const auto& entry : request.modules) {
    const std::string name = entry.first + ".weight";
    const bool is_known = std::any_of(planner.tensors.begin(), planner.tensors.end(),
                                      [&](const PlannedTensor& t) { return t.plan.name == name; });
    if (!is_known) fail(Code::BadRequest, "no module {} in this shape", entry.first);
  }
  TemporaryFolder folder(dst);
  write_weights(folder.path, planner.tensors, request.max_shard_bytes);
  write_tokenizer(folder.path, config.vocab_size);
  write_text_file(folder.path / "config.json", text);
  folder.commit(dst);
}

}  // namespace loft
