#include "model/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file_map.h"
#include "model/config.h"
#include "model/summary.h"

namespace loft {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTiny = R"({"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192, "vocab_size": 300,
  "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})";

struct Synth : ::testing::Test {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("loft-synth-test-{}", ::getpid());
  void SetUp() override {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string error_of(const SynthRequest& request, const std::filesystem::path& dst) {
    try {
      synth_checkpoint(request, dst);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  size_t n_entries() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
  }
};

TEST(SynthShapes, EachIsAConfigThatLoftReads) {
  for (const SynthShape& shape : synth_shapes()) {
    EXPECT_NO_THROW(parse_config(shape.config_json, shape.name)) << shape.name;
  }
}

TEST_F(Synth, EveryFormatIsWrittenInItsOwnShapes) {
  const QuantFormat formats[] = {{QuantKind::Affine, 3, 32}, {QuantKind::Affine, 4, 64}, {QuantKind::Mxfp4, 4, 32},
                                 {QuantKind::Mxfp8, 8, 32},  {QuantKind::Nvfp4, 4, 16},  {}};
  int i = 0;
  for (const QuantFormat& format : formats) {
    SynthRequest request;
    request.config_json = kTiny;
    request.format = format;
    const std::filesystem::path dst = folder / std::to_string(i++);
    synth_checkpoint(request, dst);
    const ModelSummary summary = summarize_checkpoint(dst);
    ASSERT_EQ(summary.formats.size(), 1u) << format_name(format);
    EXPECT_EQ(summary.formats[0].n_modules, 2 * 7 + 2);
    EXPECT_TRUE(summary.notes.empty());
  }
}

TEST_F(Synth, AModuleWhoseInputsDoNotDivideStaysDense) {
  SynthRequest request;
  request.config_json = kTiny;
  request.format = {QuantKind::Affine, 4, 128};  // down_proj has 192 inputs
  synth_checkpoint(request, folder / "m");
  const ModelSummary summary = summarize_checkpoint(folder / "m");
  ASSERT_EQ(summary.formats.size(), 2u);
  EXPECT_EQ(summary.formats[0].n_modules + summary.formats[1].n_modules, 2 * 7 + 2);
}

TEST_F(Synth, TheSeedAloneDecidesTheBytes) {
  const auto bytes_of = [&](uint64_t seed, uint64_t shard_bytes, const char* name) {
    SynthRequest request;
    request.config_json = kTiny;
    request.seed = seed;
    request.max_shard_bytes = shard_bytes;
    synth_checkpoint(request, folder / name);
    return summarize_checkpoint(folder / name).weight_bytes;
  };
  const uint64_t big = uint64_t(1) << 40;
  EXPECT_EQ(bytes_of(1, big, "a"), bytes_of(1, big, "b"));
  bytes_of(2, big, "c");
  const auto text = [&](const char* name) { return read_text_file(folder / name / "model.safetensors", 1 << 26); };
  EXPECT_EQ(text("a"), text("b"));
  EXPECT_NE(text("a"), text("c"));
  EXPECT_EQ(bytes_of(1, 50000, "d"), bytes_of(1, big, "e"));
  EXPECT_TRUE(std::filesystem::exists(folder / "d" / "model.safetensors.index.json"));
}

TEST_F(Synth, WhatIsWrongIsNamedAndNothingIsLeft) {
  SynthRequest request;
  request.shape = "llama-9";
  EXPECT_THAT(error_of(request, folder / "m"), HasSubstr("smollm2-135m, llama-3.2-1b"));
  request.shape.clear();
  request.config_json = kTiny;
  request.modules["model.layers.9.mlp.up_proj"] = false;
  EXPECT_THAT(error_of(request, folder / "m"), HasSubstr("no module model.layers.9.mlp.up_proj"));
  request.modules.clear();
  request.format.bits = 7;
  EXPECT_THAT(error_of(request, folder / "m"), HasSubstr("7 bits"));
  EXPECT_EQ(n_entries(), 0u);
  request.format.bits = 4;
  std::filesystem::create_directories(folder / "m");
  EXPECT_THAT(error_of(request, folder / "m"), HasSubstr("exists already"));
  EXPECT_EQ(n_entries(), 1u);
}

}  // namespace
}  // namespace loft
