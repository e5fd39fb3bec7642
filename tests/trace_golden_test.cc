// Traces and perplexity of a real checkpoint against the NumPy float32 forward: the trace was made by
// tools/golden/make_trace.py MODEL /usr/share/common-licenses/GPL-3, the perplexities by the same forward and by
// llama.cpp on a dequantized F32 file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "core/file_map.h"
#include "core/sha256.h"
#include "measure/compare_traces.h"
#include "measure/corpus.h"
#include "measure/logit_trace.h"
#include "measure/perplexity.h"

namespace loft {
namespace {

const std::filesystem::path kSource = LOFT_SOURCE_DIR;
const std::filesystem::path kLicenses = "/usr/share/common-licenses";

constexpr double kDecidedGap = 0.1;  // logits; a16 activations and f16 keys move them by at most 0.03
constexpr double kPerplexityTolerance = 5e-4;

struct RealModel {
  std::filesystem::path folder;
  Tokenizer tokenizer;
  std::unique_ptr<Backend> backend = open_cpu_backend({});
  std::unique_ptr<Model> model;

  explicit RealModel(const std::string& name) : folder(kSource / "models" / name), tokenizer(Tokenizer::load(folder)) {}
  void load(const ForcedNeeds& needs) {
    const int64_t vocab_size = read_config(folder).vocab_size;
    model = load_model(folder, *backend, forced_model_options({}, needs, vocab_size));
  }
};

TEST(TraceGolden, SmolLM2AgreesAtEveryDecidedPosition) {
  RealModel m("SmolLM2-135M-Instruct-4bit");
  const Corpus corpus = read_corpus(kLicenses / "GPL-3", m.tokenizer, false);
  const auto bos = begin_token(m.tokenizer);
  m.load(forced_needs(plan_trace({}, corpus.ids, bos, TraceBos::Reference), 1));
  std::string text;
  trace_logits({.backend = *m.backend,
                .model = *m.model,
                .shape = {},
                .head = {.model = "loft", .corpus = "GPL-3", .is_plain = true},
                .ids = corpus.ids,
                .bos = bos},
               [&](std::string_view part) { text += part; });
  const TraceFile reference = read_trace_file(kSource / "tests/golden/SmolLM2-135M-Instruct-4bit.trace.tsv");
  const Comparison c = compare_traces(reference, parse_trace(text, "loft"), {.decided_gap = kDecidedGap});
  std::printf("disagreements %ld of %ld, decided %ld of %ld; delta max %.4f, nll %.6f and %.6f\n", long(c.n_disagreed),
              long(c.n_positions), long(c.n_decided_disagreed), long(c.n_decided), c.delta.max,
              std::log(c.reference_ppl), std::log(c.candidate_ppl));
  EXPECT_EQ(c.n_positions, 1024);
  EXPECT_GT(c.n_decided, 900);
  EXPECT_EQ(c.n_decided_disagreed, 0);
  EXPECT_NEAR(std::log(c.candidate_ppl) / std::log(c.reference_ppl), 1, 1e-3);
  EXPECT_THAT(c.warnings, testing::IsEmpty());
}

struct TextA {
  const char* model;
  int64_t windows;
  double ppl;
};

class PerplexityGolden : public testing::TestWithParam<TextA> {};

// Text A: three licences of Debian, one behind the other; llama-perplexity's windows of 512.
TEST_P(PerplexityGolden, TextA) {
  const TextA& wanted = GetParam();
  std::string text;
  for (const char* name : {"GPL-3", "Apache-2.0", "MPL-2.0"}) text += read_text_file(kLicenses / name, 1 << 20);
  ASSERT_THAT(sha256_hex(text), testing::StartsWith("8f33639d"));
  RealModel m(wanted.model);
  const auto windows = plan_windows({.mode = PerplexityMode::Llama, .length = 512, .max_windows = -1},
                                    m.tokenizer.encode(text, true), begin_token(m.tokenizer));
  EXPECT_EQ(int64_t(windows.size()), wanted.windows);
  m.load(forced_needs(windows, 2));
  LossSums sums;
  score_windows({.backend = *m.backend, .model = *m.model, .windows = windows, .batch = 2}, sums, [] { return true; });
  std::printf("%s\n", perplexity_line("llama", "512", sums).c_str());
  EXPECT_NEAR(sums.ppl() / wanted.ppl, 1, kPerplexityTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, PerplexityGolden,
                         testing::Values(TextA{"SmolLM2-135M-Instruct-4bit", 26, 16.2385},
                                         TextA{"gemma-3-270m", 26, 11.9094}),
                         [](const auto& row) { return std::string(row.index == 0 ? "SmolLM2" : "Gemma3"); });

}  // namespace
}  // namespace loft
