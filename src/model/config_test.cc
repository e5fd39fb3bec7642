#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"

namespace loft {
namespace {

using ::testing::HasSubstr;

Json llama_json() {
  return parse_json(R"({"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 320, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5})",
                    "test");
}
Json gemma_json() {
  return parse_json(R"({"model_type": "gemma3_text", "hidden_size": 128, "num_hidden_layers": 7,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "intermediate_size": 256, "vocab_size": 320,
    "sliding_window": 16})",
                    "test");
}
ModelConfig parse(const Json& json) {
  return parse_config(dump_json(json), "config.json");
}

std::string message_of(const Json& json) {
  try {
    parse(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
Json with(Json json, const std::string& key, const char* value) {
  json[key] = parse_json(value, "test");
  return json;
}

TEST(Config, ReadsALlama) {
  const ModelConfig c = parse(llama_json());
  EXPECT_EQ(c.model_type, "llama");
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.n_kv_heads, 2);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.layer_windows, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(c.tie_word_embeddings, std::nullopt);
  EXPECT_EQ(c.quantization.global, std::nullopt);
}

TEST(Config, KeyValueHeadsDefaultToHeads) {
  Json j = llama_json();
  j.erase("num_key_value_heads");
  EXPECT_EQ(parse(j).n_kv_heads, 4);
}

TEST(Config, AMistralSlidesInEveryLayerAndALlamaOnlyWhereLayerTypesSaySo) {
  Json j = with(llama_json(), "sliding_window", "16");
  EXPECT_EQ(parse(j).layer_windows, (std::vector<int64_t>{0, 0, 0}));
  j["model_type"] = "mistral";
  EXPECT_EQ(parse(j).layer_windows, (std::vector<int64_t>{16, 16, 16}));
  j["sliding_window"] = nullptr;
  EXPECT_EQ(parse(j).layer_windows, (std::vector<int64_t>{0, 0, 0}));
  j = with(with(llama_json(), "sliding_window", "16"), "layer_types",
           R"(["full_attention", "sliding_attention", "full_attention"])");
  EXPECT_EQ(parse(j).layer_windows, (std::vector<int64_t>{0, 16, 0}));
}

TEST(Config, EverySixthLayerOfGemmaIsFull) {
  const ModelConfig c = parse(gemma_json());
  EXPECT_EQ(c.layer_windows, (std::vector<int64_t>{16, 16, 16, 16, 16, 0, 16}));
  EXPECT_EQ(c.query_pre_attn_scalar, 256);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.local_rope.theta, 1e4);
}

TEST(Config, AWrapperIsUnpacked) {
  Json outer;
  outer["model_type"] = "gemma3";
  outer["text_config"] = gemma_json();
  outer["text_config"].erase("num_attention_heads");
  outer["text_config"].erase("num_key_value_heads");
  outer["text_config"].erase("vocab_size");
  outer["eos_token_id"] = {1, 106};
  const ModelConfig c = parse(outer);
  EXPECT_EQ(c.model_type, "gemma3_text");
  EXPECT_EQ(c.wrapper_type, "gemma3");
  EXPECT_EQ(c.tensor_prefix, "language_model.");
  EXPECT_EQ(c.n_heads, 8);
  EXPECT_EQ(c.n_kv_heads, 4);
  EXPECT_EQ(c.vocab_size, 262208);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int64_t>{1, 106}));
  outer["vocab_size"] = 400;
  EXPECT_EQ(parse(outer).vocab_size, 400);
}

struct RopeCase {
  const char* parameters;  // rope_parameters
  const char* scaling;     // rope_scaling
  const char* flat;        // rope_theta
  double theta;
  const char* source;
  RopeType type;
};

TEST(Config, EveryRopeSpellingIsReadNestedFirst) {
  const RopeCase cases[] = {
      {"null", "null", "null", 10000, "family default", RopeType::Default},
      {"null", "null", "5e5", 5e5, "rope_theta", RopeType::Default},
      {R"({"rope_theta": 1e7, "rope_type": "default"})", "null", "null", 1e7, "rope_parameters", RopeType::Default},
      {R"({"rope_theta": 1e7, "rope_type": "default"})", "null", "5e5", 1e7, "rope_parameters", RopeType::Default},
      {"null", R"({"rope_theta": 2e6, "type": "linear", "factor": 4})", "5e5", 2e6, "rope_scaling", RopeType::Linear},
      {"null", R"({"rope_type": "llama3", "factor": 8})", "5e5", 5e5, "rope_theta", RopeType::Llama3},
      {R"({"rope_theta": 1e7})", R"({"type": "yarn", "factor": 4})", "null", 1e7, "rope_parameters", RopeType::Yarn},
      {R"({"rope_type": "linear", "factor": 2})", R"({"type": "llama3", "factor": 8})", "null", 1e4, "family default",
       RopeType::Linear},
  };
  for (const RopeCase& c : cases) {
    const Json j = with(with(with(llama_json(), "rope_parameters", c.parameters), "rope_scaling", c.scaling),
                        "rope_theta", c.flat);
    const ModelConfig config = parse(j);
    EXPECT_EQ(config.rope.theta, c.theta) << j;
    EXPECT_EQ(config.rope.theta_source, c.source) << j;
    EXPECT_EQ(config.rope.type, c.type) << j;
  }
}

TEST(Config, GemmaRopesMayBeNestedByLayerKind) {
  Json j = with(gemma_json(), "rope_parameters", R"({
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 2e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})");
  ModelConfig c = parse(j);
  EXPECT_EQ(c.rope.theta, 2e6);
  EXPECT_EQ(c.rope.factor, 8);
  EXPECT_EQ(c.local_rope.theta, 2e4);
  EXPECT_EQ(c.local_rope.type, RopeType::Default);
  j = with(with(gemma_json(), "rope_scaling", R"({"rope_type": "linear", "factor": 8})"), "rope_local_base_freq",
           "3e4");
  c = parse(j);
  EXPECT_EQ(c.rope.type, RopeType::Linear);
  EXPECT_EQ(c.local_rope.type, RopeType::Default);
  EXPECT_EQ(c.local_rope.theta, 3e4);
}

TEST(Config, WhatTheForwardDoesNotDoIsRefusedByName) {
  EXPECT_THAT(message_of(with(llama_json(), "rope_scaling", R"({"rope_type": "dynamic", "factor": 2})")),
              HasSubstr("rope type \"dynamic\" is not implemented"));
  EXPECT_THAT(message_of(with(llama_json(), "rope_scaling", R"({"type": "longrope", "factor": 2})")),
              HasSubstr("longrope"));
  EXPECT_THAT(message_of(with(llama_json(), "partial_rotary_factor", "0.5")), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(message_of(with(llama_json(), "rope_traditional", "true")), HasSubstr("rope_traditional"));
  EXPECT_THAT(message_of(with(llama_json(), "hidden_act", "\"gelu\"")), HasSubstr("\"gelu\" is not implemented"));
  EXPECT_THAT(message_of(with(llama_json(), "model_file", "\"evil.py\"")), HasSubstr("config.json.model_file"));
  const std::string unknown = message_of(with(llama_json(), "model_type", "\"mamba\""));
  EXPECT_THAT(unknown, HasSubstr("\"mamba\" is not supported (supported: llama, mistral, gemma3_text"));
  EXPECT_THAT(unknown, HasSubstr("config.json"));
}

TEST(Config, NumbersOutOfRangeAreRefusedByName) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                          "intermediate_size", "vocab_size", "max_position_embeddings", "rms_norm_eps"}) {
    for (const char* bad : {"0", "-1", "9223372036854775807", "\"4\"", "[1]", "NaN", "1e300"}) {
      EXPECT_THAT(message_of(with(llama_json(), key, bad)), HasSubstr(std::string("config.json.") + key)) << bad;
    }
  }
  EXPECT_THAT(message_of(with(llama_json(), "head_dim", "33")), HasSubstr("even number"));
  EXPECT_THAT(message_of(with(llama_json(), "num_key_value_heads", "3")), HasSubstr("do not divide"));
  EXPECT_THAT(message_of(with(llama_json(), "rope_theta", "-1")), HasSubstr("rope_theta"));
  EXPECT_THAT(message_of(with(llama_json(), "rope_scaling", R"({"type": "linear"})")), HasSubstr("without a factor"));
  EXPECT_THAT(message_of(with(llama_json(), "eos_token_id", "[1, -1]")), HasSubstr("eos_token_id"));
}

TEST(Config, QuantizationEntriesHaveThreeForms) {
  const Json j = with(llama_json(), "quantization", R"({"group_size": 32, "bits": 4, "mode": "mxfp4",
    "model.embed_tokens": false, "lm_head": true, "model.layers.0.mlp.down_proj": {"bits": 8},
    "model.layers.1.mlp.down_proj": {"mode": "nvfp4"}})");
  const QuantConfig q = parse(j).quantization;
  EXPECT_EQ(q.global, (QuantFormat{QuantKind::Mxfp4, 4, 32}));
  EXPECT_EQ(std::get<bool>(q.modules.at("model.embed_tokens")), false);
  EXPECT_EQ(std::get<bool>(q.modules.at("lm_head")), true);
  // What an object omits takes the default of its mode, not the global value.
  EXPECT_EQ(std::get<QuantFormat>(q.modules.at("model.layers.0.mlp.down_proj")),
            (QuantFormat{QuantKind::Affine, 8, 64}));
  EXPECT_EQ(std::get<QuantFormat>(q.modules.at("model.layers.1.mlp.down_proj")),
            (QuantFormat{QuantKind::Nvfp4, 4, 16}));
  EXPECT_EQ(q.modules.size(), 4u);
}

TEST(Config, QuantizationStandsInFourPlaces) {
  const char* dict = R"({"group_size": 64, "bits": 8})";
  const QuantFormat wanted{QuantKind::Affine, 8, 64};
  EXPECT_EQ(parse(with(llama_json(), "quantization", dict)).quantization.global, wanted);
  EXPECT_EQ(parse(with(llama_json(), "quantization_config", dict)).quantization.global, wanted);
  Json outer;
  outer["model_type"] = "gemma3";
  outer["text_config"] = with(gemma_json(), "quantization_config", dict);
  EXPECT_EQ(parse(outer).quantization.global, wanted);
}

TEST(Config, SettingsOutsideAModeAreRefusedByName) {
  for (const char* bad : {R"({"bits": 7})", R"({"bits": 4, "group_size": 48})", R"({"mode": "mxfp4", "bits": 8})",
                          R"({"mode": "affine", "bits": 0})", R"({"mode": "int4"})"}) {
    EXPECT_THAT(message_of(with(llama_json(), "quantization", bad)), HasSubstr("config.json.quantization")) << bad;
  }
  EXPECT_THAT(message_of(with(llama_json(), "quantization", R"({"model.layers.0.mlp.up_proj": {"bits": 7}})")),
              HasSubstr("model.layers.0.mlp.up_proj"));
  EXPECT_THAT(message_of(with(llama_json(), "quantization", R"({"model.layers.0.mlp.up_proj": 4})")),
              HasSubstr("true or false"));
  EXPECT_THAT(message_of(with(llama_json(), "quantization_config", R"({"quant_method": "gptq"})")), HasSubstr("gptq"));
}

}  // namespace
}  // namespace loft
