// Traces of a scripted model, whose every logit is known; no weights.
#include "measure/logit_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "engine/scripted_engine.h"
#include "measure/trace_file.h"

namespace loft {
namespace {

using scripted::HostMemoryBackend;
using scripted::LogitsFn;
using scripted::ScriptedModel;
using testing::HasSubstr;

constexpr int32_t kBos = 256;

std::vector<int32_t> twelve_ids() {
  std::vector<int32_t> ids;
  for (int i = 0; i < 12; ++i) ids.push_back((i * 37 + 11) % 200);
  return ids;
}

struct Traced {
  std::string text{};
  TraceSummary summary{};
  std::string error{};
};

Traced traced(const TraceShape& shape, const std::vector<int32_t>& ids, std::optional<int32_t> bos, bool is_plain,
              LogitsFn fn = scripted::hashed_logits) {
  HostMemoryBackend backend;
  ScriptedModel model(257, 4096, std::move(fn));
  Traced run;
  const TraceJob job{.backend = backend,
                     .model = model,
                     .shape = shape,
                     .head = {.model = "scripted",
                              .corpus = "text.txt",
                              .version = "1.2.3",
                              .options = {{"qmm_kernel", "x", "env"}},
                              .is_plain = is_plain},
                     .ids = ids,
                     .bos = bos};
  try {
    run.summary = trace_logits(job, [&](std::string_view part) { run.text += part; });
  } catch (const Error& e) {
    run.error = fmt::format("{}: {}", exit_status(e.code()), e.what());
  }
  return run;
}

// Made by tests/golden/make_scripted_trace.py.
constexpr const char* kGoldenHead =
    "# model\tscripted\n# corpus\ttext.txt\ttokens\t12\n# chunks\t2\tchunk_tokens\t4\ttopk\t3\tprefill\t0\n"
    "# columns\tchunk\tpos\ttarget\tnll\ttop_ids\ttop_logits\n";
constexpr const char* kGoldenRows[] = {
    "0\t0\t48\t6.182588\t158,36,209\t7.996963,7.978835,7.940149\n"
    "0\t1\t85\t6.487656\t48,68,155\t7.996088,7.962575,7.956405\n"
    "0\t2\t122\t8.788120\t217,82,85\t7.970251,7.962828,7.956726\n"
    "0\t3\t159\t7.550359\t38,76,68\t7.937232,7.862211,7.857038\n",
    "1\t0\t196\t4.552620\t31,253,9\t7.946611,7.937720,7.926354\n"
    "1\t1\t33\t3.439460\t33,120,166\t7.976346,7.947675,7.911944\n"
    "1\t2\t70\t7.103537\t60,16,217\t7.997131,7.939481,7.915373\n"
    "1\t3\t107\t7.132271\t203,77,148\t7.991761,7.980218,7.961385\n"};

constexpr TraceShape kGoldenShape = {.chunk = 4, .max_chunks = 9, .topk = 3, .prefill = 0, .start = 0};

// Mutants: trace_five_decimals, trace_ids_unsorted, trace_state_kept.
TEST(LogitTrace, ThePlainFormIsThePublishedOneToTheByte) {
  const Traced run = traced(kGoldenShape, twelve_ids(), kBos, true);
  EXPECT_EQ(run.error, "");
  EXPECT_EQ(run.text, std::string(kGoldenHead) + kGoldenRows[0] + kGoldenRows[1]);
  EXPECT_EQ(run.summary.n_rows, 8);
  EXPECT_NEAR(run.summary.mean_nll, 51.236611 / 8, 1e-6);
}

TEST(LogitTrace, CommentLinesTellDeviceOptionsAndPasses) {
  const Traced run = traced(kGoldenShape, twelve_ids(), kBos, false);
  const std::string added =
      "# loft\t1\tversion\t1.2.3\n# device\tcpu\t\n# start\t0\tbos\t256\tlogits\tf32\n# option\tqmm_kernel\tx\tenv\n";
  EXPECT_EQ(run.text, kGoldenHead + added + "# forward\t0\tscored\trows\t4\tpast\t0\troutes\t-\tkernels\t-\n" +
                          kGoldenRows[0] + "# forward\t1\tscored\trows\t5\tpast\t0\troutes\t-\tkernels\t-\n" +
                          kGoldenRows[1] + "# end\trows\t8\n");
  const TraceFile read = parse_trace(run.text, "trace");
  EXPECT_EQ(read.data_sha256, run.summary.data_sha256);
  EXPECT_EQ(read.file_sha256, run.summary.file_sha256);
  EXPECT_EQ(read.metadata.at("tokens"), "12");
  EXPECT_EQ(read.metadata.at("start"), "0");
  EXPECT_EQ(read.metadata.at("logits"), "f32");
  EXPECT_EQ(read.forwards.size(), 2u);
  const Traced plain = traced(kGoldenShape, twelve_ids(), kBos, true);
  EXPECT_EQ(plain.summary.data_sha256, run.summary.data_sha256);
}

/// The rows alone, without the number of the chunk.
std::string rows_without_chunk(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (text[at] != '#') out += text.substr(text.find('\t', at), end + 1 - text.find('\t', at));
    at = end + 1;
  }
  return out;
}

// Logits depend on every token in the cache, so a chunk that saw the one before it would differ.
// Mutant: trace_state_kept.
TEST(LogitTrace, AChunkStartsOnAFreshState) {
  TraceShape second = kGoldenShape;
  second.start = 4;
  second.max_chunks = 1;
  traced(kGoldenShape, twelve_ids(), kBos, true);  // leaves nothing behind
  const Traced alone = traced(second, twelve_ids(), kBos, true);
  EXPECT_EQ(rows_without_chunk(alone.text), rows_without_chunk(kGoldenRows[1]));
}

// Mutant: trace_context_skipped.
TEST(LogitTrace, PrefillIsFedBeforeAndItsRowsAreDropped) {
  TraceShape shape = kGoldenShape;
  shape.prefill = 3;
  const Traced run = traced(shape, twelve_ids(), kBos, false);
  EXPECT_THAT(run.text, HasSubstr("# forward\t0\tscored\trows\t4\tpast\t0\t"));
  EXPECT_THAT(run.text, HasSubstr("# forward\t1\tcontext\trows\t4\tpast\t0\t"));  // begin token and three
  EXPECT_THAT(run.text, HasSubstr("# forward\t1\tscored\trows\t4\tpast\t4\t"));
  EXPECT_EQ(run.summary.n_rows, 8);
  EXPECT_THAT(run.text, testing::Not(HasSubstr(kGoldenRows[1])));
}

// Mutants: trace_last_target, trace_bos_at_start, trace_bos_dropped.
TEST(PlanTrace, ChunksBeginTokensAndContext) {
  std::vector<int32_t> ids(12);
  for (int i = 0; i < 12; ++i) ids[size_t(i)] = i;
  const auto plan = [&](const TraceShape& shape, size_t n, TraceBos rule = TraceBos::Reference) {
    return plan_trace(shape, std::span(ids).first(n), kBos, rule);
  };
  const TraceShape fours = {.chunk = 4, .max_chunks = 9};
  EXPECT_EQ(plan(fours, 12).size(), 2u);
  EXPECT_EQ(plan(fours, 8).size(), 1u);
  EXPECT_EQ(plan(fours, 9).size(), 2u);
  EXPECT_EQ(plan({.chunk = 4, .max_chunks = 1}, 12).size(), 1u);
  EXPECT_EQ(plan({.chunk = 4, .max_chunks = 9, .start = 3}, 12).size(), 2u);
  EXPECT_EQ(plan({.chunk = 4, .max_chunks = 9, .start = 4}, 12).size(), 1u);

  const auto two = plan(fours, 12);
  EXPECT_EQ(two[0].ids, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(two[0].first_row, 0);
  EXPECT_EQ(two[1].ids, (std::vector<int32_t>{kBos, 4, 5, 6, 7, 8}));
  EXPECT_EQ(two[1].first_row, 1);
  EXPECT_EQ(two[1].n_scored(), 4);

  const auto with_context = plan({.chunk = 4, .max_chunks = 9, .prefill = 6}, 12);
  EXPECT_TRUE(with_context[0].context.empty());
  EXPECT_EQ(with_context[0].first_row, 0);
  EXPECT_EQ(with_context[1].context, (std::vector<int32_t>{kBos, 0, 1, 2, 3}));
  EXPECT_EQ(with_context[1].ids, (std::vector<int32_t>{4, 5, 6, 7, 8}));
  EXPECT_EQ(plan({.chunk = 1, .max_chunks = 1, .prefill = 6, .start = 8}, 12)[0].context,
            (std::vector<int32_t>{kBos, 2, 3, 4, 5, 6, 7}));

  EXPECT_EQ(plan(fours, 12, TraceBos::Always)[0].ids, (std::vector<int32_t>{kBos, 0, 1, 2, 3, 4}));
  EXPECT_EQ(plan(fours, 12, TraceBos::Never)[1].ids, (std::vector<int32_t>{4, 5, 6, 7, 8}));
  EXPECT_EQ(plan_trace(fours, ids, std::nullopt, TraceBos::Reference)[1].first_row, 0);
}

TEST(PlanTrace, ATextThatIsTooShortIsRefused) {
  const std::pair<TraceShape, int> cases[] = {{{}, 0}, {{}, 1}, {{.chunk = 4}, 4}, {{.chunk = 1, .start = 9}, 9}};
  for (const auto& [shape, n] : cases) {
    const Traced run = traced(shape, std::vector<int32_t>(size_t(n), 1), kBos, true);
    EXPECT_THAT(run.error, HasSubstr(fmt::format("3: text too short: {} tokens", n)));
    EXPECT_EQ(run.text, "");
  }
}

TEST(LogitTrace, ShapesThatTheModelCannotServeAreRefused) {
  EXPECT_THAT(traced({.chunk = 4, .topk = 257}, twelve_ids(), kBos, true).error, HasSubstr("2: topk"));
  EXPECT_THAT(traced({.chunk = 4100, .topk = 3}, std::vector<int32_t>(5000, 1), kBos, true).error,
              HasSubstr("2: chunk and prefill: found sequences of 4100 tokens, wanted at most the model's 4096"));
}

TEST(LogitTrace, TheStandardVariants) {
  std::string text;
  for (const TraceVariant& v : trace_variants()) {
    text += fmt::format("{} {} {} {} {} {}\n", v.name, v.shape.chunk, v.shape.max_chunks, v.shape.topk, v.shape.prefill,
                        v.shape.start);
  }
  EXPECT_EQ(
      text,
      "w1 1 128 8 0 0\nw8 8 80 8 512 0\nw256 256 2 8 0 0\nw1ctx512 1 128 8 512 512\nw8ctx1536 8 40 8 1536 1536\n");
}

TEST(LogitTrace, EqualLogitsStandByTheirIds) {
  const Traced run = traced({.chunk = 1, .max_chunks = 1, .topk = 4}, {1, 2}, {}, true,
                            [](std::span<const int32_t>, std::span<float> row) { row[9] = row[4] = row[77] = 1.0f; });
  EXPECT_THAT(run.text, HasSubstr("\t4,9,77,0\t1.000000,1.000000,1.000000,0.000000\n"));
}

// A certain target: everything else is too far away to count in f32.
TEST(LogitTrace, ALossOfZeroHasTheSignOfThePublishedTool) {
  const Traced run = traced({.chunk = 1, .max_chunks = 1, .topk = 2}, {1, 2}, {}, true,
                            [](std::span<const int32_t>, std::span<float> row) { row[2] = 300.0f; });
  EXPECT_THAT(run.text, HasSubstr("0\t0\t2\t-0.000000\t2,0\t300.000000,0.000000\n"));
}

// Mutant: trace_finite_check.
TEST(LogitTrace, AValueThatIsNotFiniteEndsTheTrace) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Traced run =
        traced(kGoldenShape, twelve_ids(), kBos, false, [=](std::span<const int32_t> tokens, std::span<float> row) {
          scripted::hashed_logits(tokens, row);
          if (tokens[0] == kBos && tokens.size() == 4) row[200] = bad;
        });
    EXPECT_EQ(run.error, "5: chunk 1, position 2: a logit is not finite");
    EXPECT_THAT(run.text, testing::EndsWith("\n# abort\t1\t2\n"));
    EXPECT_THAT(run.text, HasSubstr("\n1\t1\t33\t"));
    EXPECT_THROW(parse_trace(run.text, "trace"), Error);
  }
}

TEST(LogitTrace, NumbersAreThoseOfPrintf) {
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    const float x = std::ldexp(float(int32_t(state)), int(state % 61) - 50);
    std::string text;
    append_fixed6(text, x);
    char wanted[128];
    std::snprintf(wanted, sizeof(wanted), "%.6f", double(x));
    ASSERT_EQ(text, wanted);
  }
  std::string zero;
  append_fixed6(zero, -0.0f);
  EXPECT_EQ(zero, "-0.000000");
}

}  // namespace
}  // namespace loft
