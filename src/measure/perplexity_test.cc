// Windows, sums and errors worked out by hand; passes by a scripted model.
#include "measure/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

using scripted::HostMemoryBackend;
using scripted::ScriptedModel;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kBos = 256;

std::vector<int32_t> counting(int n) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(i % 200);
  return ids;
}

std::vector<ForcedSequence> planned(PerplexityMode mode, int n_tokens, std::optional<int32_t> bos = kBos,
                                    int64_t max_windows = -1, int64_t stride = 2) {
  return plan_windows({.mode = mode, .length = 5, .max_windows = max_windows, .stride = stride}, counting(n_tokens),
                      bos);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return fmt::format("{}: {}", exit_status(e.code()), e.what());
  }
  return "no error";
}

// Mutant: perplexity_tail_kept.
TEST(PlanWindows, MlxCutsDisjointWindowsAndDropsTheTail) {
  const auto windows = planned(PerplexityMode::Mlx, 14);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_THAT(windows[0].ids, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(windows[1].ids, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(windows[1].first_row, 0);
  EXPECT_EQ(windows[1].n_scored(), 4);
  EXPECT_EQ(planned(PerplexityMode::Mlx, 15).size(), 3u);
  EXPECT_EQ(planned(PerplexityMode::Mlx, 15, kBos, 2).size(), 2u);
}

TEST(PlanWindows, ChunkScoresTheFirstTokenOfTheNext) {
  const auto windows = planned(PerplexityMode::Chunk, 15);
  ASSERT_EQ(windows.size(), 2u);  // (15 - 1) / 5
  EXPECT_THAT(windows[0].ids, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(windows[1].ids, ElementsAre(kBos, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(windows[0].first_row, 0);
  EXPECT_EQ(windows[1].first_row, 1);
  EXPECT_EQ(windows[1].n_scored(), 5);
  EXPECT_EQ(planned(PerplexityMode::Chunk, 16).size(), 3u);
  EXPECT_EQ(planned(PerplexityMode::Chunk, 16, std::nullopt)[1].ids.size(), 6u);
}

// Mutant: perplexity_whole_window.
TEST(PlanWindows, LlamaScoresTheSecondHalfBehindABeginToken) {
  const auto windows = planned(PerplexityMode::Llama, 14);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_THAT(windows[1].ids, ElementsAre(kBos, 6, 7, 8, 9));
  EXPECT_EQ(windows[1].first_row, 2);  // targets 3 and 4
  EXPECT_EQ(windows[1].n_scored(), 2);
  EXPECT_THAT(planned(PerplexityMode::Llama, 14, std::nullopt)[1].ids, ElementsAre(5, 6, 7, 8, 9));
  const auto real = plan_windows({.mode = PerplexityMode::Llama, .length = 512}, counting(1024), {});
  EXPECT_EQ(real[0].first_row, 256);
  EXPECT_EQ(real[0].n_scored(), 255);
}

TEST(PlanWindows, StrideMovesAndScoresTheNewTokens) {
  const auto windows = planned(PerplexityMode::Stride, 10);
  ASSERT_EQ(windows.size(), 3u);  // begin at 0, 2, 4
  EXPECT_THAT(windows[2].ids, ElementsAre(4, 5, 6, 7, 8));
  EXPECT_EQ(windows[2].first_row, 2);
  EXPECT_EQ(windows[2].n_scored(), 2);
  EXPECT_EQ(planned(PerplexityMode::Stride, 10, kBos, -1, 5)[0].n_scored(), 4);
}

TEST(PlanWindows, ATextThatIsTooShortIsRefused) {
  const std::pair<PerplexityMode, int> least[] = {
      {PerplexityMode::Mlx, 5}, {PerplexityMode::Chunk, 6}, {PerplexityMode::Llama, 10}, {PerplexityMode::Stride, 5}};
  for (const auto& [mode, n] : least) {
    EXPECT_GE(planned(mode, n).size(), 1u);
    EXPECT_EQ(error_of([&, m = mode, k = n] { planned(m, k - 1); }),
              fmt::format("3: text too short: {} tokens, wanted at least {}", n - 1, n));
  }
}

// Losses 1, 2 and 3, 6: mean 3, variance with n - 1: (4 + 1 + 0 + 9) / 3. Window sums 3 and 9 against 6 each.
// Mutant: perplexity_error_by_n.
TEST(LossSums, MeanAndBothErrors) {
  LossSums sums;
  sums.add_window(std::vector<float>{1, 2});
  EXPECT_FALSE(sums.window_error().has_value());
  sums.add_window(std::vector<float>{3, 6});
  EXPECT_DOUBLE_EQ(sums.mean(), 3);
  EXPECT_DOUBLE_EQ(sums.ppl(), std::exp(3.0));
  EXPECT_NEAR(*sums.token_error(), std::exp(3.0) * std::sqrt(14.0 / 3 / 4), 1e-9);
  // Means 1.5 and 4.5: sd with n - 1 is sqrt(4.5), over sqrt(2) windows.
  EXPECT_NEAR(*sums.window_error(), std::exp(3.0) * std::sqrt(4.5 / 2), 1e-9);
  EXPECT_THAT(sums.window_means(), ElementsAre(1.5, 4.5));
  EXPECT_EQ(perplexity_line("mlx", "3", sums),
            "mlx L=3 windows=2 tokens=4 ppl=20.0855 +/- 21.6949 (tokens) +/- 30.1283 (windows) nll=3.000000");
}

TEST(LossSums, OneTokenHasNoError) {
  LossSums sums;
  sums.add_window(std::vector<float>{2});
  EXPECT_FALSE(sums.token_error().has_value());
  EXPECT_THAT(perplexity_line("mlx", "2", sums), HasSubstr("+/- ? (tokens) +/- ? (windows)"));
  EXPECT_TRUE(perplexity_json(sums)["token_error"].is_null());
}

LossSums scored(const std::vector<ForcedSequence>& windows, int64_t batch, std::vector<int64_t>* rows = nullptr,
                int64_t most_passes = 100, scripted::LogitsFn fn = scripted::hashed_logits) {
  HostMemoryBackend backend;
  ScriptedModel model(257, 4096, std::move(fn));
  LossSums sums;
  const auto passes = score_windows({.backend = backend, .model = model, .windows = windows, .batch = batch}, sums,
                                    [&] { return --most_passes > 0; });
  if (rows) *rows = passes;
  return sums;
}

TEST(ScoreWindows, BatchesGiveTheSameSums) {
  const auto windows = planned(PerplexityMode::Chunk, 41);
  ASSERT_EQ(windows.size(), 8u);
  std::vector<int64_t> rows;
  const LossSums alone = scored(windows, 1, &rows);
  EXPECT_EQ(alone.n_tokens(), 40);
  EXPECT_THAT(rows, ElementsAre(5, 6, 6, 6, 6, 6, 6, 6));
  for (const int64_t batch : {3, 8}) {
    const LossSums sums = scored(windows, batch, &rows);
    EXPECT_EQ(sums.mean(), alone.mean()) << batch;
    EXPECT_EQ(sums.window_means(), alone.window_means()) << batch;
  }
  EXPECT_THAT(rows, ElementsAre(47));
}

TEST(ScoreWindows, AStopKeepsWhatIsDone) {
  const LossSums sums = scored(planned(PerplexityMode::Mlx, 40), 3, nullptr, 2);
  EXPECT_EQ(sums.n_windows(), 6);
  EXPECT_EQ(sums.n_tokens(), 24);
}

TEST(ScoreWindows, AWindowThatIsNotFiniteIsNamed) {
  EXPECT_EQ(error_of([] {
              scored(planned(PerplexityMode::Mlx, 40), 3, nullptr, 100,
                     [](std::span<const int32_t> tokens, std::span<float> row) {
                       if (tokens.back() == 22) row[3] = std::numeric_limits<float>::quiet_NaN();
                     });
            }),
            "5: window 4: a logit is not finite");
}

class WindowsFile : public testing::Test {
 protected:
  std::vector<ForcedSequence> read(const std::string& text, PerplexityMode mode = PerplexityMode::Mlx) const {
    write_text_file(folder_.path() / "w.jsonl", text);
    return read_windows(folder_.path() / "w.jsonl", mode, 257);
  }
  scripted::TemporaryFolder folder_;
};

TEST_F(WindowsFile, ALineIsAWindow) {
  const auto windows = read("[1, 2, 3]\n[4,256]\n");
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_THAT(windows[0].ids, ElementsAre(1, 2, 3));
  EXPECT_EQ(windows[1].n_scored(), 1);
  EXPECT_EQ(read("[1,2,3,4,5,6]", PerplexityMode::Llama)[0].first_row, 3);
}

TEST_F(WindowsFile, BadLinesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "found no line"},          {"[1,2]\n[1]\n", "w.jsonl:2"},     {"[1,2]\n{}\n", "w.jsonl:2"},
      {"[1,257]\n", "found 257"},     {"[1,-1]\n", "wanted a token id"}, {"[1,2.5]\n", "wanted a token id"},
      {"[1,99999999999]\n", "found"}, {"[1,2\n", "w.jsonl:1"},
  };
  for (const auto& [text, wanted] : cases) {
    const std::string error = error_of([&, t = text] { read(t); });
    EXPECT_THAT(error, HasSubstr(wanted));
    EXPECT_THAT(error, testing::StartsWith("3: ")) << text;
  }
  EXPECT_THAT(error_of([&] { read("[1,2]", PerplexityMode::Llama); }), HasSubstr("none is scored"));
}

TEST(TraceLosses, ChunksAreWindows) {
  const TraceFile trace = parse_trace(
      "0\t0\t7\t1.000000\t1,2\t2.0,1.0\n0\t1\t7\t2.000000\t1,2\t2.0,1.0\n1\t0\t7\t3.000000\t1,2\t2.0,1.0\n", "t");
  const LossSums sums = trace_losses(trace);
  EXPECT_EQ(sums.n_windows(), 2);
  EXPECT_DOUBLE_EQ(sums.mean(), 2);
}

}  // namespace
}  // namespace loft
