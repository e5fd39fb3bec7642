// Forward passes of tiny models: what a row computes does not depend on its company, on how a prompt is cut, or on the
// ring of a sliding layer; and what the world does wrong is said before anything runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Json biased_llama() {
  Json config = tiny_llama();
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  return config;
}
Json sliding_mistral() {
  Json config = tiny_llama();
  config["model_type"] = "mistral";
  config["sliding_window"] = 16;
  return config;
}

struct Loaded {
  TempFolder temp;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  Loaded(const Json& config, QmmActivations activations, QuantFormat format = {QuantKind::Affine, 4, 64}) {
    SynthRequest request = tiny_request(config);
    request.format = format;
    synth_checkpoint(request, temp / "m");
    backend = open_test_backend(activations);
    model = load_model(temp / "m", *backend, {.max_rows = 128, .max_logit_rows = 128});
  }
  std::vector<float> run(const std::vector<int32_t>& ids, int64_t chunk) {
    return run_model(*backend, *model, ids, chunk);
  }
};

struct Case {
  Json config;
  QmmActivations activations;
};
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const Json& config : {tiny_llama(), biased_llama(), sliding_mistral(), tiny_gemma()}) {
    out.push_back({config, QmmActivations::F32});
    out.push_back({config, QmmActivations::A16});
  }
  return out;
}

TEST(Forward, ACutPromptGivesTheSameBits) {
  for (const Case& c : cases()) {
    Loaded loaded(c.config, c.activations);
    const std::vector<int32_t> ids = some_ids(75);
    const std::vector<float> whole = loaded.run(ids, 75);
    for (const int64_t chunk : {1, 7, 16, 31, 64}) {
      EXPECT_EQ(loaded.run(ids, chunk), whole) << c.config << " chunk " << chunk;
    }
    EXPECT_TRUE(std::all_of(whole.begin(), whole.end(), [](float x) { return std::isfinite(x); })) << c.config;
  }
}

TEST(Forward, ABatchGivesEachSequenceTheBitsItHasAlone) {
  for (const Case& c : cases()) {
    Loaded loaded(c.config, c.activations);
    const std::vector<int32_t> ids[] = {some_ids(40), some_ids(23, 300), some_ids(1), some_ids(33, 200)};
    std::vector<float> alone;
    std::vector<int32_t> tokens, rows;
    std::vector<KvCache> caches;
    std::vector<BatchSequence> sequences;
    caches.reserve(4);
    for (const std::vector<int32_t>& s : ids) {
      const std::vector<float> logits = loaded.run(s, 64);
      alone.insert(alone.end(), logits.end() - 320, logits.end());
      caches.emplace_back(*loaded.backend, loaded.model->kv_shape(DType::F32, 64, 64));
      sequences.push_back({.cache = &caches.back(), .first_row = int64_t(tokens.size()), .n_rows = int64_t(s.size())});
      tokens.insert(tokens.end(), s.begin(), s.end());
      rows.push_back(int32_t(tokens.size() - 1));
    }
    const Tensor logits = loaded.model->forward({.tokens = tokens, .sequences = sequences, .logit_rows = rows});
    std::vector<float> together(size_t(logits.size()));
    loaded.backend->download(together.data(), logits.data, logits.bytes());
    EXPECT_EQ(together, alone) << c.config;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(caches[i].n_tokens(), int64_t(ids[i].size()));
  }
}

TEST(Forward, EveryFormatStaysFiniteAndNearItsDenseTwin) {
  const QuantFormat formats[] = {{QuantKind::Affine, 2, 32}, {QuantKind::Affine, 3, 64}, {QuantKind::Affine, 8, 128},
                                 {QuantKind::Mxfp4, 4, 32},  {QuantKind::Mxfp8, 8, 32},  {QuantKind::Nvfp4, 4, 16}};
  for (const QuantFormat& format : formats) {
    Loaded loaded(untied(tiny_llama()), QmmActivations::F32, format);
    make_dense_twin(loaded.temp / "m", loaded.temp / "twin");
    const std::vector<int32_t> ids = some_ids(12);
    EXPECT_LE(relative_difference(loaded.run(ids, 12), logits_of(loaded.temp / "twin", ids)), kTwinTolerance)
        << format_name(format);
  }
}

TEST(Forward, AnNvfp4GlobalScaleMultipliesTheWeight) {
  TempFolder temp;
  SynthRequest request = tiny_request(tiny_llama());
  request.format = {QuantKind::Nvfp4, 4, 16};
  synth_checkpoint(request, temp / "m");
  constexpr const char* kPath = "model.layers.1.mlp.up_proj";
  edit_tensors(temp / "m", [&](Tensors& t) { t[std::string(kPath) + ".global_scale"] = float_tensor({1}, {1344}); });
  EXPECT_EQ(open_checkpoint(temp / "m").find(kPath)->weight.global_scale, 0.5f);  // 1344 / (448 * 6)
  edit_tensors(temp / "m", [&](Tensors& t) { t[std::string(kPath) + ".global_scale"] = float_tensor({2}, {1, 1}); });
  EXPECT_THAT(error_of([&] { open_checkpoint(temp / "m"); }), HasSubstr("up_proj.global_scale"));
}

TEST(Forward, TokensBeyondTheVocabularyAreRefusedByNumber) {
  Loaded loaded(tiny_llama(), QmmActivations::F32);
  EXPECT_THAT(error_of([&] { loaded.run({1, 320}, 2); }), HasSubstr("token id 320: wanted 0 to 319"));
  EXPECT_THAT(error_of([&] { loaded.run({-1}, 1); }), HasSubstr("token id -1"));
}

TEST(Forward, ATruncatedCacheContinuesAsIfTheRestHadNeverBeen) {
  Loaded loaded(tiny_gemma(), QmmActivations::F32);
  const std::vector<int32_t> ids = some_ids(30);
  const std::vector<float> wanted = loaded.run(ids, 30);
  KvCache cache(*loaded.backend, loaded.model->kv_shape(DType::F32, 64, 32));
  const auto forward = [&](std::vector<int32_t> tokens) {
    const int32_t last = int32_t(tokens.size()) - 1;
    const BatchSequence sequence{.cache = &cache, .first_row = 0, .n_rows = last + 1};
    const Tensor logits =
        loaded.model->forward({.tokens = tokens, .sequences = {&sequence, 1}, .logit_rows = {&last, 1}});
    std::vector<float> out(size_t(logits.size()));
    loaded.backend->download(out.data(), logits.data, logits.bytes());
    return out;
  };
  forward({ids.begin(), ids.begin() + 20});
  forward(some_ids(15, 111));
  ASSERT_TRUE(cache.can_truncate(20));
  cache.truncate(20);
  EXPECT_EQ(forward({ids.begin() + 20, ids.end()}), (std::vector<float>{wanted.end() - 320, wanted.end()}));
}

TEST(Forward, TooLittleMemoryIsSaidBeforeWeightsAreRead) {
  TempFolder temp;
  synth_checkpoint(tiny_request(tiny_llama()), temp / "m");
  const auto message_of = [&](size_t memory_limit, int64_t max_rows) -> std::string {
    CpuBackendOptions options;
    options.memory_limit = memory_limit;
    const std::unique_ptr<Backend> backend = open_cpu_backend(options);
    try {
      load_model(temp / "m", *backend, {.max_rows = max_rows, .max_logit_rows = 1});
    } catch (const Error& e) {
      return e.code() == Code::OutOfMemory ? e.what() : "another code";
    }
    return "no error";
  };
  // More rows than this machine's memory holds, then more than a limit allows.
  EXPECT_THAT(message_of(0, int64_t(1) << 34), AllOf(HasSubstr("needs "), HasSubstr(" of weights"), HasSubstr("has ")));
  EXPECT_THAT(message_of(1 << 20, 4096),
              AllOf(HasSubstr("needs "), HasSubstr("has 1048576 bytes by the memory limit")));
}

}  // namespace
}  // namespace loft
