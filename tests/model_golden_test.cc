// Real checkpoints against an independent NumPy float32 forward (tools/golden/make_golden.py): logits of the last
// prompt position, greedy tokens, perplexity. With the default arithmetic: 16-bit activation codes, f16 keys and
// values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "core/json.h"
#include "model/model.h"

namespace loft {
namespace {

const std::filesystem::path kSource = LOFT_SOURCE_DIR;

// Shares of the logit range, and logits. Activation codes of 16 bits and f16 keys stay two orders below the first.
constexpr double kLogitTolerance = 2e-2;
constexpr double kOrderedGap = 0.05;  // neighbours among the top five that must keep their order
constexpr double kNearTie = 0.1;      // a greedy divergence is allowed where the two best were this close
constexpr double kPerplexityTolerance = 2e-3;
constexpr size_t kMinEqualPrompts = 7;

struct Golden : ::testing::TestWithParam<const char*> {
  Json golden = read_json_file(kSource / "tests" / "golden" / (std::string(GetParam()) + ".json"));
  std::unique_ptr<Backend> backend = open_cpu_backend({});
  std::unique_ptr<Model> model;

  void SetUp() override {
    const std::filesystem::path folder = kSource / "models" / GetParam();
    ASSERT_TRUE(std::filesystem::exists(folder / "config.json"))
        << folder.string() << " is missing: run tools/fetch_models all, then tools/convert_models build/dev/loft";
    model = load_model(folder, *backend, {.max_rows = 512, .max_logit_rows = 256});
  }

  KvCache make_cache() { return KvCache(*backend, model->kv_shape(DType::F16, 512, 512)); }

  /// Logits of the given rows of one pass, each [vocab].
  std::vector<std::vector<float>> forward(const std::vector<std::vector<int32_t>>& tokens, std::vector<KvCache>& caches,
                                          const std::vector<int32_t>& rows) {
    std::vector<int32_t> all;
    std::vector<BatchSequence> sequences;
    for (size_t i = 0; i < tokens.size(); ++i) {
      sequences.push_back({&caches[i], int64_t(all.size()), int64_t(tokens[i].size())});
      all.insert(all.end(), tokens[i].begin(), tokens[i].end());
    }
    const Tensor logits = model->forward({.tokens = all, .sequences = sequences, .logit_rows = rows});
    std::vector<std::vector<float>> out(rows.size(), std::vector<float>(size_t(logits.dim(1))));
    for (size_t i = 0; i < rows.size(); ++i) {
      const Tensor row = slice_rows(logits, int64_t(i), int64_t(i) + 1);
      backend->download(out[i].data(), row.data, row.bytes());
    }
    return out;
  }
};

int32_t best_of(const std::vector<float>& logits) {
  return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST_P(Golden, TopLogitsOfTheLastPositionAgree) {
  double worst = 0;
  for (const Json& prompt : golden["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    std::vector<KvCache> caches;
    caches.push_back(make_cache());
    const std::vector<float> logits = forward({ids}, caches, {int32_t(ids.size()) - 1})[0];
    const double range = prompt["logit_max"].get<double>() - prompt["logit_min"].get<double>();
    const auto top_ids = prompt["top_ids"].get<std::vector<size_t>>();
    const auto wanted = prompt["top_values"].get<std::vector<double>>();
    for (size_t i = 0; i < top_ids.size(); ++i) {
      const double difference = std::fabs(double(logits[top_ids[i]]) - wanted[i]) / range;
      EXPECT_LE(difference, kLogitTolerance) << prompt["text"] << " id " << top_ids[i];
      worst = std::max(worst, difference);
    }
    for (size_t i = 0; i + 1 < 5; ++i) {
      if (wanted[i] - wanted[i + 1] <= kOrderedGap) continue;
      EXPECT_GT(logits[top_ids[i]], logits[top_ids[i + 1]]) << prompt["text"];
    }
  }
  std::printf("largest difference: %.2e of the logit range\n", worst);
}

TEST_P(Golden, GreedyTokensAgreeButForNearTies) {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<KvCache> caches;
  std::vector<int32_t> rows;
  for (const Json& prompt : golden["prompts"]) {
    tokens.push_back(prompt["ids"].get<std::vector<int32_t>>());
    caches.push_back(make_cache());
    rows.push_back(int32_t(tokens.back().size()) + (rows.empty() ? -1 : rows.back()));
  }
  const size_t n = tokens.size(), n_steps = golden["prompts"][0]["greedy_ids"].size();
  std::vector<size_t> n_equal(n, 0);
  for (size_t step = 0; step < n_steps; ++step) {
    const std::vector<std::vector<float>> logits = forward(tokens, caches, rows);
    for (size_t i = 0; i < n; ++i) {
      const Json& prompt = golden["prompts"][i];
      const int32_t wanted = prompt["greedy_ids"][step].get<int32_t>(), got = best_of(logits[i]);
      if (n_equal[i] == step && got == wanted) ++n_equal[i];
      if (n_equal[i] == step) {
        EXPECT_LE(prompt["greedy_gaps"][step].get<double>(), kNearTie)
            << prompt["text"] << ": step " << step << " gave " << got << ", wanted " << wanted;
      }
      tokens[i] = {got};
      rows[i] = int32_t(i);
    }
  }
  const size_t n_whole = size_t(std::count(n_equal.begin(), n_equal.end(), n_steps));
  std::printf("%zu of %zu prompts give the same %zu tokens\n", n_whole, n, n_steps);
  EXPECT_GE(n_whole, kMinEqualPrompts);
}

TEST_P(Golden, PerplexityAgrees) {
  const Json& wanted = golden["perplexity"];
  const auto ids = wanted["ids"].get<std::vector<int32_t>>();
  const auto bos = wanted["bos"].get<std::vector<int32_t>>();
  const size_t window = wanted["window"].get<size_t>(), width = window - bos.size(), half = window / 2;
  std::vector<int32_t> rows;
  for (size_t i = half; i + 1 < window; ++i) rows.push_back(int32_t(i));
  double sum = 0;
  size_t count = 0;
  for (size_t first = 0; first + width <= ids.size(); first += width) {
    std::vector<int32_t> tokens = bos;
    tokens.insert(tokens.end(), ids.begin() + std::ptrdiff_t(first), ids.begin() + std::ptrdiff_t(first + width));
    std::vector<KvCache> caches;
    caches.push_back(make_cache());
    const std::vector<std::vector<float>> logits = forward({tokens}, caches, rows);
    for (size_t i = 0; i < rows.size(); ++i, ++count) {
      const double top = *std::max_element(logits[i].begin(), logits[i].end());
      double total = 0;
      for (const float x : logits[i]) total += std::exp(double(x) - top);
      sum += std::log(total) + top - double(logits[i][size_t(tokens[half + i + 1])]);
    }
  }
  const double perplexity = std::exp(sum / double(count));
  std::printf("perplexity %.5f, wanted %.5f\n", perplexity, wanted["value"].get<double>());
  EXPECT_EQ(count, 8 * 255u);
  EXPECT_NEAR(perplexity / wanted["value"].get<double>(), 1.0, kPerplexityTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::Values("SmolLM2-135M-Instruct-4bit", "gemma-3-270m"),
                         [](const auto& row) { return std::string(row.index == 0 ? "SmolLM2" : "Gemma3"); });

}  // namespace
}  // namespace loft
