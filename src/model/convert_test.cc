#include "model/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/config.h"
#include "model/gguf_test_data.h"
#include "model/safetensors.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_1 = 3;
constexpr uint32_t kQ8_0 = 8;
constexpr uint32_t kQ6_K = 14;
constexpr uint64_t kHidden = 256;
constexpr uint64_t kInter = 256;
constexpr uint64_t kHeads = 4;
constexpr uint64_t kKvHeads = 2;
constexpr uint64_t kHeadDim = 64;
constexpr uint64_t kVocab = 16;

class Convert : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("loft-convert-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
    return root_ / name;
  }
  ConvertReport convert(const GgufWriter& w, ScaleDType scales = ScaleDType::F16) const {
    fs::remove_all(root_ / "out");
    return convert_checkpoint({.src = write("in.gguf", w.file()), .dst = root_ / "out", .scales = scales, .dtype = {}});
  }
  Json json(const char* name) const { return read_json_file(root_ / "out" / name); }
  void expect_error(const GgufWriter& w, Code code, const std::string& part) const {
    try {
      convert(w);
      ADD_FAILURE() << "no error, wanted one with: " << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_THAT(std::string(e.what()), HasSubstr(part));
    }
    expect_nothing_left();
  }
  void expect_nothing_left() const {
    for (const auto& entry : fs::directory_iterator(root_)) {
      EXPECT_THAT(entry.path().filename().string(), ::testing::Not(::testing::StartsWith("out")));
    }
  }

  fs::path root_;
};

std::string floats(size_t n, float first, float step) {
  std::string out;
  for (size_t i = 0; i < n; ++i) GgufWriter::put(out, first + step * float(i));
  return out;
}

// Random codes under small finite scales: the halves of a block lie where its type has them.
std::string blocks(uint32_t type_id, uint64_t n_values, uint32_t seed) {
  const GgufBlockType& type = *find_gguf_block_type(type_id);
  std::mt19937 random(seed);
  std::string out(n_values / uint64_t(type.values) * uint64_t(type.bytes), '\0');
  for (char& c : out) c = char(random());
  const uint16_t half = f32_to_f16(0.01f);
  for (size_t at = 0; at < out.size(); at += size_t(type.bytes)) {
    const size_t place = type_id == kQ6_K ? 208 : 0;
    std::memcpy(out.data() + at + place, &half, 2);
    if (type_id == kQ4_1 || type_id == 12) std::memcpy(out.data() + at + 2, &half, 2);
  }
  return out;
}

void add_byte_level_tokenizer(GgufWriter& w) {
  w.text("tokenizer.ggml.model", "gpt2");
  w.text("tokenizer.ggml.pre", "smollm");
  w.texts("tokenizer.ggml.tokens",
          {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "c", "abc", "<tool>"});
  w.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::I32, {3, 3, 3, 1, 1, 1, 1, 1, 4});
  w.texts("tokenizer.ggml.merges", {"a b", "ab c"});
  w.u32("tokenizer.ggml.bos_token_id", 1);
  w.u32("tokenizer.ggml.eos_token_id", 0);
  w.text("tokenizer.chat_template", "{{ messages }}");
}

struct TinyModel {
  std::string arch = "llama";
  uint32_t embedding_type = kQ8_0;
  uint32_t down_type = kQ4_1;
  uint32_t matrix_type = kQ4_1;
};

GgufWriter tiny_gguf(const TinyModel& m = {}) {
  GgufWriter w;
  w.text("general.architecture", m.arch);
  w.u32(m.arch + ".block_count", 1);
  w.u32(m.arch + ".context_length", 512);
  w.u32(m.arch + ".embedding_length", kHidden);
  w.u32(m.arch + ".feed_forward_length", kInter);
  w.u32(m.arch + ".attention.head_count", kHeads);
  w.u32(m.arch + ".attention.head_count_kv", kKvHeads);
  w.u32(m.arch + ".attention.key_length", kHeadDim);
  w.f32(m.arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  const bool gemma = m.arch == "gemma3";
  if (gemma) w.u32("gemma3.attention.sliding_window", 16);
  const auto matrix = [&](const std::string& name, uint32_t type, uint64_t in, uint64_t out) {
    w.tensor(name, type, {in, out},
             type == kF32 ? floats(in * out, -1.0f, 1e-4f) : blocks(type, in * out, uint32_t(name.size())));
  };
  const auto vector = [&](const std::string& name, uint64_t n) { w.tensor(name, kF32, {n}, floats(n, 1.0f, 0.125f)); };
  matrix("token_embd.weight", m.embedding_type, kHidden, kVocab);
  vector("output_norm.weight", kHidden);
  vector("blk.0.attn_norm.weight", kHidden);
  vector("blk.0.ffn_norm.weight", kHidden);
  matrix("blk.0.attn_q.weight", m.matrix_type, kHidden, kHeads * kHeadDim);
  matrix("blk.0.attn_k.weight", m.matrix_type, kHidden, kKvHeads * kHeadDim);
  matrix("blk.0.attn_v.weight", m.matrix_type, kHidden, kKvHeads * kHeadDim);
  matrix("blk.0.attn_output.weight", m.matrix_type, kHeads * kHeadDim, kHidden);
  matrix("blk.0.ffn_gate.weight", m.matrix_type, kHidden, kInter);
  matrix("blk.0.ffn_up.weight", m.matrix_type, kHidden, kInter);
  matrix("blk.0.ffn_down.weight", m.down_type, kInter, kHidden);
  if (!gemma) return w;
  vector("blk.0.attn_q_norm.weight", kHeadDim);
  vector("blk.0.attn_k_norm.weight", kHeadDim);
  vector("blk.0.post_attention_norm.weight", kHidden);
  vector("blk.0.post_ffw_norm.weight", kHidden);
  return w;
}

GgufWriter tiny_llama(const TinyModel& m = {}) {
  GgufWriter w = tiny_gguf(m);
  add_byte_level_tokenizer(w);
  return w;
}

// Every weight of a stored module as f32.
std::vector<float> read_module(const Shards& shards, const std::string& module, QuantFormat format, DType scale_dtype) {
  const StoredTensor& scales = *shards.find(module + ".scales");
  const int64_t n = int64_t(scales.shape[0]);
  const int64_t k = int64_t(scales.shape[1]) * format.group;
  const QuantWeight w{.format = format,
                      .n = n,
                      .k = k,
                      .scale_dtype = scale_dtype,
                      .words = shards.find(module + ".weight")->bytes.data(),
                      .scales = scales.bytes.data(),
                      .biases = shards.find(module + ".biases")->bytes.data()};
  std::vector<float> out(size_t(n * k));
  for (int64_t row = 0; row < n; ++row) dequantize_run(w, row, 0, k, out.data() + row * k);
  return out;
}

std::vector<float> read_gguf(const GgufWriter& w, const std::string& name) {
  const std::string bytes = w.file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "x");
  const GgufTensor& t = file.tensors().at(name);
  std::vector<float> out(t.n_values);
  decode_gguf(*t.type, t.bytes.data(), int64_t(t.n_values), out.data());
  return out;
}

TEST_F(Convert, ALlamaFileBecomesACheckpointThatTheLoaderReads) {
  const ConvertReport report = convert(tiny_llama());
  EXPECT_EQ(report.model_type, "llama");
  for (const ConvertRow& row : report.rows) EXPECT_EQ(row.exactness, Exactness::Exact) << row.source;
  const ModelConfig config = read_config(root_ / "out");
  EXPECT_EQ(config.hidden_size, int64_t(kHidden));
  EXPECT_EQ(config.head_dim, int64_t(kHeadDim));
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.tie_word_embeddings, true);
  EXPECT_EQ(*config.quantization.global, (QuantFormat{QuantKind::Affine, 4, 32}));
  EXPECT_EQ(std::get<QuantFormat>(config.quantization.modules.at("model.embed_tokens")),
            (QuantFormat{QuantKind::Affine, 8, 32}));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(0, 2));  // the file's eos, and <|im_end|> by its name
  const Shards shards = Shards::open(root_ / "out");
  EXPECT_EQ(shards.find("model.layers.0.self_attn.q_proj.scales")->dtype, DType::F16);
  EXPECT_EQ(shards.find("lm_head.weight"), nullptr);
}

// Seen to fail with source_row returning its row unchanged.
TEST_F(Convert, RowsOfQAndKComeOutOfTheirInterleavedOrder) {
  const GgufWriter w = tiny_llama();
  convert(w);
  const Shards shards = Shards::open(root_ / "out");
  const std::pair<const char*, const char*> pairs[] = {{"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj"},
                                                       {"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj"},
                                                       {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj"}};
  for (const auto& [source, module] : pairs) {
    const std::vector<float> wanted = read_gguf(w, source);
    const std::vector<float> found = read_module(shards, module, {QuantKind::Affine, 4, 32}, DType::F16);
    const bool moved = std::string_view(source) != "blk.0.attn_v.weight";
    for (size_t row = 0; row < found.size() / kHidden; ++row) {
      const size_t head = row / kHeadDim * kHeadDim;
      const size_t i = row % kHeadDim;
      const size_t from = !moved ? row : head + (i < kHeadDim / 2 ? 2 * i : 2 * (i - kHeadDim / 2) + 1);
      for (size_t j = 0; j < kHidden; ++j)
        ASSERT_EQ(found[row * kHidden + j], wanted[from * kHidden + j]) << source << " row " << row;
    }
  }
}

TEST_F(Convert, MixedTypesGetEntriesOfTheirOwnAndAnHonestReport) {
  const GgufWriter w = tiny_llama({.down_type = kQ6_K, .matrix_type = 12});
  ConvertReport report = convert(w);
  const auto find_row = [&](const std::string& source) {
    return *std::ranges::find_if(report.rows, [&](const ConvertRow& r) { return r.source == source; });
  };
  EXPECT_EQ(find_row("Q6_K").exactness, Exactness::Requantized);
  EXPECT_EQ(find_row("Q6_K").worst_tensor, "blk.0.ffn_down.weight");
  EXPECT_GT(find_row("Q6_K").max_error, 0);
  EXPECT_EQ(find_row("Q4_K").exactness, Exactness::Rounded);
  EXPECT_THAT(describe(report), HasSubstr("requantized    1 x Q6_K"));
  EXPECT_EQ(json("config.json")["quantization"]["model.layers.0.mlp.down_proj"]["bits"], 8);

  report = convert(w, ScaleDType::F32);
  EXPECT_EQ(find_row("Q4_K").exactness, Exactness::Exact);
  const Shards shards = Shards::open(root_ / "out");
  EXPECT_EQ(shards.find("model.layers.0.mlp.up_proj.scales")->dtype, DType::F32);
  EXPECT_EQ(shards.find("model.embed_tokens.scales")->dtype, DType::F16);
  EXPECT_EQ(read_module(shards, "model.layers.0.mlp.up_proj", {QuantKind::Affine, 4, 32}, DType::F32),
            read_gguf(w, "blk.0.ffn_up.weight"));
}

TEST_F(Convert, ScalesThatOverflowF16AreKeptInF32) {
  GgufWriter w = tiny_gguf();
  add_byte_level_tokenizer(w);
  const uint16_t half = f32_to_f16(600.0f);  // -128 * 600 is beyond f16
  std::memcpy(w.data.data(), &half, 2);      // the embedding comes first
  const ConvertReport report = convert(w);
  EXPECT_THAT(report.notes, Contains(HasSubstr("token_embd.weight: f32 scales")));
  const Shards shards = Shards::open(root_ / "out");
  EXPECT_EQ(shards.find("model.embed_tokens.scales")->dtype, DType::F32);
  EXPECT_EQ(read_module(shards, "model.embed_tokens", {QuantKind::Affine, 8, 32}, DType::F32),
            read_gguf(w, "token_embd.weight"));
}

TEST_F(Convert, AnInfiniteScaleIsCorrupt) {
  GgufWriter w = tiny_llama();
  const uint16_t inf = 0x7c00;
  std::memcpy(w.data.data() + 34, &inf, 2);
  expect_error(w, Code::Corrupt, "token_embd.weight: the block of value 32 holds an infinity or NaN (Q8_0)");
}

TEST_F(Convert, GemmaNormsLoseTheOneThatTheWriterAdded) {
  GgufWriter w = tiny_gguf({.arch = "gemma3"});
  w.text("tokenizer.ggml.model", "llama");
  w.texts("tokenizer.ggml.tokens", {"<pad>", "<eos>", "<bos>", "<unk>", "a", "b", "\xe2\x96\x81", "ab",
                                    "\xe2\x96\x81"
                                    "a",
                                    "\xe2\x96\x81"
                                    "ab",
                                    "<end_of_turn>"});
  w.numbers<float>("tokenizer.ggml.scores", GgufType::F32, {0, 0, 0, 0, -5, -6, -7, -1, -2, -3, 0});
  w.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::I32, {3, 3, 3, 2, 1, 1, 1, 1, 1, 1, 3});
  w.u32("tokenizer.ggml.bos_token_id", 2);
  w.u32("tokenizer.ggml.eos_token_id", 1);
  w.u32("tokenizer.ggml.unknown_token_id", 3);
  w.boolean("tokenizer.ggml.add_space_prefix", false);
  convert(w);
  const ModelConfig config = read_config(root_ / "out");
  EXPECT_EQ(config.model_type, "gemma3_text");
  EXPECT_EQ(config.sliding_window, 16);
  EXPECT_EQ(config.query_pre_attn_scalar, double(kHeadDim));
  EXPECT_EQ(config.local_rope.theta, 10000.0);
  const Shards shards = Shards::open(root_ / "out");
  const StoredTensor& norm = *shards.find("model.norm.weight");
  ASSERT_EQ(norm.dtype, DType::F16);
  uint16_t half = 0;
  std::memcpy(&half, norm.bytes.data() + 2 * 3, 2);
  EXPECT_EQ(f16_to_f32(half), 0.375f);  // 1 + 3 * 0.125 in the file
  EXPECT_NE(shards.find("model.layers.0.pre_feedforward_layernorm.weight"), nullptr);

  const Json t = json("tokenizer.json");
  EXPECT_EQ(t["model"]["merges"], Json::parse(R"([["a","b"],["▁","a"],["▁a","b"],["▁","ab"]])"));
  EXPECT_EQ(t["post_processor"]["single"][0]["SpecialToken"]["id"], "<bos>");
  EXPECT_EQ(t["normalizer"]["type"], "Replace");
  EXPECT_EQ(t["decoder"]["decoders"].size(), 3u);
  EXPECT_EQ(json("generation_config.json")["eos_token_id"], Json::parse("[1, 10]"));
}

TEST_F(Convert, RopeFreqsBecomeLlama3Scaling) {
  GgufWriter w = tiny_llama();
  w.f32("llama.rope.freq_base", 500000.0f);
  std::string divisors;
  for (size_t i = 0; i < kHeadDim / 2; ++i) {
    const double inv_freq = std::pow(500000.0, -2.0 * double(i) / double(kHeadDim));
    const double wavelength = 2 * std::numbers::pi / inv_freq;
    double d = 1;
    if (wavelength > 8192.0) {
      d = 32;
    } else if (wavelength > 8192.0 / 4) {
      const double smooth = (8192.0 / wavelength - 1) / 3;
      d = 1 / ((1 - smooth) / 32 + smooth);
    }
    GgufWriter::put(divisors, float(d));
  }
  GgufWriter fits = w;
  fits.tensor("rope_freqs.weight", kF32, {kHeadDim / 2}, divisors);
  convert(fits);
  const Json scaling = json("config.json")["rope_scaling"];
  EXPECT_EQ(scaling["rope_type"], "llama3");
  EXPECT_EQ(scaling["factor"], 32.0);
  EXPECT_EQ(scaling["original_max_position_embeddings"], 8192);
  w.tensor("rope_freqs.weight", kF32, {kHeadDim / 2}, floats(kHeadDim / 2, 1.0f, 0.5f));
  expect_error(w, Code::Unsupported, "rope_freqs.weight: is no llama3 scaling");
}

TEST_F(Convert, TheTokenizerOfAByteLevelFileIsRebuilt) {
  convert(tiny_llama());
  const Json t = json("tokenizer.json");
  EXPECT_EQ(t["model"]["vocab"]["abc"], 7);
  EXPECT_EQ(t["model"]["merges"], Json::parse(R"([["a","b"],["ab","c"]])"));
  EXPECT_EQ(t["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  EXPECT_EQ(t["added_tokens"].size(), 4u);
  EXPECT_EQ(t["added_tokens"][3]["content"], "<tool>");
  EXPECT_EQ(t["added_tokens"][3]["special"], false);
  EXPECT_TRUE(t["post_processor"].is_null());
  const Json c = json("tokenizer_config.json");
  EXPECT_EQ(c["chat_template"], "{{ messages }}");
  EXPECT_EQ(c["bos_token"], "<|im_start|>");
  EXPECT_EQ(c["add_bos_token"], false);
  EXPECT_EQ(read_text_file(root_ / "out" / "chat_template.jinja", 100), "{{ messages }}");
}

TEST_F(Convert, TokenizersWithoutARowAreRefusedByName) {
  GgufWriter w = tiny_gguf();
  w.text("tokenizer.ggml.model", "bert");
  w.texts("tokenizer.ggml.tokens", {"a"});
  expect_error(w, Code::Unsupported, "tokenizer.ggml.model \"bert\" cannot be converted; these can: gpt2, llama");
  w = tiny_gguf();
  w.text("tokenizer.ggml.model", "gpt2");
  w.text("tokenizer.ggml.pre", "tekken");
  w.texts("tokenizer.ggml.tokens", {"a"});
  w.texts("tokenizer.ggml.merges", {});
  expect_error(w, Code::Unsupported, "\"tekken\" is not known; these are: gpt-2, default, smollm, llama-bpe, qwen2");
}

TEST_F(Convert, LyingTokenizersAreCorrupt) {
  const auto with_tokens = [](const std::vector<std::string>& tokens) {
    GgufWriter w = tiny_gguf();
    w.text("tokenizer.ggml.model", "gpt2");
    w.texts("tokenizer.ggml.tokens", tokens);
    return w;
  };
  expect_error(with_tokens({"a", "a"}), Code::Corrupt, "entries 0 and 1 are equal");
  expect_error(with_tokens({"a", "\xff"}), Code::Corrupt, "tokenizer.ggml.tokens[1]: not UTF-8 at byte 0");
  GgufWriter w = with_tokens({"a", "b"});
  w.texts("tokenizer.ggml.merges", {"a b"});
  expect_error(w, Code::Corrupt, "tokenizer.ggml.merges[0]");
  w = with_tokens({"a", "b"});
  w.u32("tokenizer.ggml.eos_token_id", 2);
  expect_error(w, Code::Corrupt, "tokenizer.ggml.eos_token_id: 2, but there are 2 tokens");
  expect_error(with_tokens(std::vector<std::string>(1, std::string(1, '\0') + "x")), Code::Corrupt,
               "tokenizer.ggml.merges: missing");
}

TEST_F(Convert, TensorsAndShapesOutsideTheTableAreRefused) {
  GgufWriter w = tiny_llama();
  w.tensor("blk.0.ffn_gate_inp.weight", kF32, {1}, "xxxx");
  expect_error(w, Code::Unsupported, "1 tensors have no place in architecture llama: blk.0.ffn_gate_inp.weight (F32)");
  w = tiny_llama();
  w.tensors.replace(w.tensors.find("attn_norm"), 9, "attn_nope");
  expect_error(w, Code::Corrupt, "blk.0.attn_norm.weight: missing");
  w = tiny_llama();
  w.tensor("output.weight", kF32, {4}, floats(4, 0, 1));
  expect_error(w, Code::Corrupt, "output.weight: shape [4], wanted [256, 16] (innermost first)");
  w = tiny_llama();
  w.tensor("output.weight", 20, {kHidden, kVocab}, std::string(18 * kHidden / 32 * kVocab, 'x'));
  expect_error(w, Code::Unsupported, "output.weight: tensors of type IQ4_NL cannot be converted");
  w = GgufWriter();
  w.text("general.architecture", "mamba");
  w.number("split.count", GgufType::U16, uint16_t(3));
  expect_error(w, Code::Unsupported, "one of 3 parts of a split model");
  w = GgufWriter();
  w.text("general.architecture", "mamba");
  expect_error(w, Code::Unsupported, "general.architecture \"mamba\" cannot be converted; these can: llama, gemma3");
}

TEST_F(Convert, TheDestinationMustBeNew) {
  const fs::path src = write("in.gguf", tiny_llama().file());
  fs::create_directory(root_ / "out");
  const auto convert_to = [&](const fs::path& dst) { convert_checkpoint({.src = src, .dst = dst, .dtype = {}}); };
  EXPECT_THROW(convert_to(root_ / "out"), Error);
  EXPECT_TRUE(fs::is_empty(root_ / "out"));
  EXPECT_THROW(convert_to(root_ / "none" / "out"), Error);
  EXPECT_THROW(convert_to("."), Error);
  convert_to(root_ / "new" / "");
  EXPECT_TRUE(fs::exists(root_ / "new" / "config.json"));
}

// A dense folder in Hugging Face form: config.json, one shard, a tokenizer file and one that is never copied.
void write_dense_folder(const fs::path& folder, const std::string& config, const std::vector<TensorPlan>& plan) {
  fs::create_directory(folder);
  write_text_file(folder / "config.json", config);
  write_text_file(folder / "tokenizer.json", "{}");
  write_text_file(folder / "modeling.py", "import os");
  SafetensorsWriter out(folder, plan);
  for (const TensorPlan& t : plan) {
    std::string bytes;
    for (uint64_t i = 0; i < t.bytes() / 4; ++i) GgufWriter::put(bytes, 1.0f + float(i) / 3);
    out.append(as_bytes(bytes));
  }
  out.finish();
}

TEST_F(Convert, ADenseFolderKeepsItsNamesAndCastsWhenAsked) {
  write_dense_folder(root_ / "hf",
                     R"({"model_type":"llama","torch_dtype":"float32","tie_word_embeddings":true,"x":Infinity})",
                     {{"model.norm.weight", DType::F32, {3}},
                      {"lm_head.weight", DType::F32, {2, 2}},
                      {"a.rotary_emb.inv_freq", DType::F32, {2}}});
  ConvertReport report = convert_checkpoint({.src = root_ / "hf", .dst = root_ / "kept", .dtype = {}});
  EXPECT_EQ(report.n_tensors, 1u);
  EXPECT_EQ(report.notes.size(), 2u);
  EXPECT_EQ(report.rows[0].exactness, Exactness::Exact);
  EXPECT_TRUE(fs::exists(root_ / "kept" / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(root_ / "kept" / "modeling.py"));
  report = convert_checkpoint({.src = root_ / "hf", .dst = root_ / "cast", .dtype = DType::BF16});
  EXPECT_EQ(report.rows[0].exactness, Exactness::Rounded);
  EXPECT_NEAR(report.rows[0].max_error, 5.0 / 3 - 213.0 / 128, 1e-6);
  const Shards shards = Shards::open(root_ / "cast");
  EXPECT_EQ(shards.find("model.norm.weight")->dtype, DType::BF16);
  EXPECT_EQ(read_json_file(root_ / "cast" / "config.json")["torch_dtype"], "bfloat16");
}

TEST_F(Convert, NamesOfAWrappedGemmaBecomeThoseOfMlx) {
  write_dense_folder(
      root_ / "hf", R"({"model_type":"gemma3","text_config":{"dtype":"float32"},"vision_config":{}})",
      {{"model.language_model.norm.weight", DType::F32, {3}}, {"model.vision_tower.x.weight", DType::F32, {2}}});
  convert_checkpoint({.src = root_ / "hf", .dst = root_ / "out", .dtype = DType::F16});
  EXPECT_THAT(Shards::open(root_ / "out").names(), ElementsAre("language_model.model.norm.weight"));
  EXPECT_EQ(json("config.json")["text_config"]["dtype"], "float16");
  EXPECT_FALSE(json("config.json").contains("vision_config"));
}

TEST_F(Convert, FoldersThatAreNotDenseAreRefused) {
  const std::vector<TensorPlan> plan = {{"a", DType::F32, {1}}};
  write_dense_folder(root_ / "q", R"({"model_type":"llama","quantization":{"bits":4}})", plan);
  write_dense_folder(root_ / "m", R"({"model_type":"mamba"})", plan);
  for (const char* name : {"q", "m"}) {
    try {
      convert_checkpoint({.src = root_ / name, .dst = root_ / "out", .dtype = {}});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Unsupported);
    }
    expect_nothing_left();
  }
}

}  // namespace
}  // namespace loft
