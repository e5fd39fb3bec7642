// model: quantization of a small Llama checkpoint: what is quantized, config.json, recipes, copies, and failures that
// leave nothing behind. Bytes against mlx-lm: tests/python/quantize_checkpoint_compare.py.
#include "model/quantize_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/safetensors.h"
#include "quant/quantize.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kConfig =
    R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":1,"intermediate_size":96,"num_attention_heads":2,
"rms_norm_eps":1e-05,"vocab_size":40,"tie_word_embeddings":false,"vision_config":{},"architectures":["LlamaForCausalLM"]})";

class QuantizeCheckpoint : public testing::Test {
 protected:
  QuantizeCheckpoint() {
    root_ =
        fs::path(testing::TempDir()) /
        fmt::format("loft_quantize_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(), ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_ / "src");
    write_text_file(root_ / "src" / "config.json", kConfig);
    write_text_file(root_ / "src" / "tokenizer.json", "{}");
    write_source();
  }
  ~QuantizeCheckpoint() override { fs::remove_all(root_); }

  // A dense f32 checkpoint; `special` is put into the middle of one weight.
  void write_source(float special = 0.5f) {
    std::vector<TensorPlan> plan;
    const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
      plan.push_back({name + ".weight", DType::F32, std::move(shape)});
    };
    const std::string layer = "model.layers.0.";
    add("model.embed_tokens", {40, 64});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) add(layer + "self_attn." + name, {64, 64});
    add(layer + "mlp.gate_proj", {96, 64});
    add(layer + "mlp.up_proj", {96, 64});
    add(layer + "mlp.down_proj", {64, 96});
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name, {64});
    add("model.norm", {64});
    add("lm_head", {40, 64});
    fs::remove(root_ / "src" / "model.safetensors");
    SafetensorsWriter writer(root_ / "src", plan);
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.1f);
    for (const TensorPlan& tensor : plan) {
      std::vector<float> values(tensor.bytes() / 4);
      for (float& x : values) x = normal(random);
      if (tensor.name == "lm_head.weight") values[1000] = special;
      writer.append({reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4});
    }
    writer.finish();
  }
  QuantizeReport quantize(std::string_view format, const std::string& recipe = "", std::optional<DType> dtype = {}) {
    fs::remove_all(root_ / "dst");
    return quantize_checkpoint({.src = root_ / "src",
                                .dst = root_ / "dst",
                                .format = *format_from_name(format),
                                .recipe = recipe,
                                .dtype = dtype});
  }
  std::string refusal(const QuantizeRequest& request, Code code) {
    std::string message;
    try {
      quantize_checkpoint(request);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      message = e.what();
    }
    for (const auto& entry : fs::directory_iterator(root_)) EXPECT_EQ(entry.path().filename(), "src") << message;
    return message;
  }

  fs::path root_;
};

TEST_F(QuantizeCheckpoint, QuantizesMatricesAndKeepsWhatDoesNotDivide) {
  uint64_t done = 0, total = 1;
  const QuantizeReport report = quantize_checkpoint({.src = root_ / "src",
                                                     .dst = root_ / "dst",
                                                     .format = *format_from_name("affine4g64"),
                                                     .recipe = {},
                                                     .dtype = {}},
                                                    [&](uint64_t d, uint64_t t) {
                                                      EXPECT_GE(d, done);
                                                      done = d;
                                                      total = t;
                                                    });
  EXPECT_EQ(done, total);
  const Shards shards = Shards::open(root_ / "dst");
  EXPECT_EQ(shards.find("lm_head.weight")->shape, (std::vector<uint64_t>{40, 8}));
  EXPECT_EQ(shards.find("lm_head.weight")->dtype, DType::U32);
  EXPECT_EQ(shards.find("lm_head.scales")->shape, (std::vector<uint64_t>{40, 1}));
  EXPECT_EQ(shards.find("lm_head.biases")->dtype, DType::F32);
  EXPECT_EQ(shards.find("model.embed_tokens.weight")->dtype, DType::U32);
  EXPECT_EQ(shards.find("model.layers.0.mlp.down_proj.weight")->dtype, DType::F32);  // 96 inputs, groups of 64
  EXPECT_EQ(shards.find("model.layers.0.mlp.down_proj.scales"), nullptr);
  EXPECT_EQ(shards.find("model.norm.weight")->dtype, DType::F32);
  EXPECT_EQ(report.bytes_written, shards.total_bytes());
  ASSERT_EQ(report.formats.size(), 2u);
  EXPECT_EQ(report.formats[0].n_modules + report.formats[1].n_modules, 9);
  EXPECT_TRUE(fs::exists(root_ / "dst" / "tokenizer.json"));
}

TEST_F(QuantizeCheckpoint, ConfigHasOneDictUnderBothKeysAndSortedKeys) {
  quantize("nvfp4");
  const std::string text = read_text_file(root_ / "dst" / "config.json", 100000);
  const OrderedJson json = parse_ordered_json(text, "config.json");
  EXPECT_EQ(json["quantization"].dump(), R"({"group_size":16,"bits":4,"mode":"nvfp4"})");
  EXPECT_EQ(json["quantization"], json["quantization_config"]);
  EXPECT_FALSE(json.contains("vision_config"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_THAT(text, HasSubstr("\n    \"rms_norm_eps\": 1e-05,\n"));
}

TEST_F(QuantizeCheckpoint, ARecipeGivesEachModuleAnEntry) {
  quantize("affine4g32", "mixed_3_6");
  const Json json = read_json_file(root_ / "dst" / "config.json");
  const Json& dict = json["quantization"];
  EXPECT_EQ(dict["bits"], 4);
  EXPECT_EQ(dict["lm_head"].dump(), R"({"bits":6,"group_size":32,"mode":"affine"})");
  EXPECT_EQ(dict["model.layers.0.self_attn.v_proj"]["bits"], 6);
  EXPECT_EQ(dict["model.layers.0.self_attn.q_proj"]["bits"], 3);
  EXPECT_EQ(dict["model.embed_tokens"]["bits"], 3);
  EXPECT_EQ(dict.size(), 3u + 9u);
  EXPECT_EQ(Shards::open(root_ / "dst").find("lm_head.weight")->shape[1], 64u * 6 / 32);
}

TEST_F(QuantizeCheckpoint, TheSameFormatIsCopiedAndAnotherIsDecodedFirst) {
  quantize("affine8g32", "", DType::BF16);
  fs::rename(root_ / "dst", root_ / "eight");
  const QuantizeRequest same{.src = root_ / "eight",
                             .dst = root_ / "dst",
                             .format = *format_from_name("affine8g32"),
                             .recipe = {},
                             .dtype = {}};
  quantize_checkpoint(same);
  const Shards before = Shards::open(root_ / "eight");
  {
    const Shards after = Shards::open(root_ / "dst");
    for (const std::string& name : before.names()) {
      EXPECT_TRUE(std::ranges::equal(before.find(name)->bytes, after.find(name)->bytes)) << name;
    }
  }
  fs::remove_all(root_ / "dst");
  QuantizeRequest other = same;
  other.format = *format_from_name("mxfp8");
  quantize_checkpoint(other);
  const Shards after = Shards::open(root_ / "dst");
  EXPECT_EQ(after.find("lm_head.scales")->dtype, DType::U8);
  EXPECT_EQ(after.find("lm_head.biases"), nullptr);
}

TEST_F(QuantizeCheckpoint, FailuresLeaveNothing) {
  const QuantizeRequest good{.src = root_ / "src", .dst = root_ / "dst", .format = {}, .recipe = {}, .dtype = {}};
  QuantizeRequest r = good;
  r.format = {.kind = QuantKind::Affine, .bits = 7, .group = 64};
  EXPECT_THAT(refusal(r, Code::Unsupported), HasSubstr("7 bits"));
  r.format = {.kind = QuantKind::Dense, .bits = 16, .group = 0};
  EXPECT_THAT(refusal(r, Code::Unsupported), HasSubstr("dense"));
  r = {.src = good.src, .dst = good.dst, .format = *format_from_name("affine4"), .recipe = "mixed_5_6", .dtype = {}};
  EXPECT_THAT(refusal(r, Code::BadRequest), HasSubstr("wanted one of mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6"));
  r.format = *format_from_name("mxfp4");
  r.recipe = "mixed_3_6";
  EXPECT_THAT(refusal(r, Code::BadRequest), HasSubstr("mode affine, not mxfp4"));
  r = {.src = root_ / "absent", .dst = good.dst, .format = *format_from_name("affine4"), .recipe = {}, .dtype = {}};
  EXPECT_THAT(refusal(r, Code::NotFound), HasSubstr("absent"));
  r.src = good.src;
  r.dst = good.src;
  EXPECT_THAT(refusal(r, Code::BadRequest), HasSubstr("exists already"));
  r.dst = good.dst;
  r.dtype = DType::I8;
  EXPECT_THAT(refusal(r, Code::BadRequest), HasSubstr("i8"));
}

// Without the check of every value the file is written with some code for it.
TEST_F(QuantizeCheckpoint, AWeightThatIsNotFiniteIsNamed) {
  QuantizeRequest r{.src = root_ / "src", .dst = root_ / "dst", .format = {}, .recipe = {}, .dtype = {}};
  r.format = *format_from_name("affine4");
  write_source(std::nanf(""));
  EXPECT_THAT(refusal(r, Code::NonFinite), HasSubstr("lm_head.weight, row 15: found nan as f32"));
  write_source(70000.0f);
  r.dtype = DType::F16;
  EXPECT_THAT(refusal(r, Code::NonFinite), HasSubstr("lm_head.weight, row 15: found 70000 as f16"));
}

}  // namespace
}  // namespace loft
