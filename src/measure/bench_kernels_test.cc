// Where a pass's time went: figures worked out by hand, and the calls of a tiny model.
#include "measure/bench_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;

KernelPass some_pass() {
  return {.ns = 10e6,
          .times = {{.name = "qmv", .route = "Gemv", .calls = 4, .ns = 6e6, .bytes = 60e6, .flops = 12e9},
                    {.name = "attention", .calls = 2, .ns = 2e6, .bytes = 1e6, .flops = 0}}};
}

// Mutant: bench_no_rest.
TEST(BenchKernels, FiguresAndTheRestThatNoCallCovers) {
  KernelPass pass = some_pass();
  const OrderedJson json = kernels_json(pass, {.gbps = 20, .source = "nominal"});
  EXPECT_EQ(json["ms"], 10.0);
  EXPECT_EQ(json["covered"], 0.8);
  ASSERT_EQ(json["rows"].size(), 3u);
  const OrderedJson& qmv = json["rows"][0];
  EXPECT_EQ(qmv["route"], "Gemv");
  EXPECT_EQ(qmv["calls"], 4);
  EXPECT_EQ(qmv["share"], 0.6);
  EXPECT_EQ(qmv["gb"], 0.06);
  EXPECT_EQ(qmv["gbps"], 10.0);
  EXPECT_EQ(qmv["share_of_ceiling"], 0.5);
  EXPECT_EQ(qmv["tflops"], 2.0);
  EXPECT_TRUE(json["rows"][1]["tflops"].is_null());
  EXPECT_TRUE(json["rows"][1]["route"].is_null());
  const OrderedJson& rest = json["rows"][2];
  EXPECT_EQ(rest["kernel"], "unattributed");
  EXPECT_EQ(rest["ms"], 2.0);
  EXPECT_TRUE(rest["gb"].is_null());
  EXPECT_THAT(kernels_text(json), HasSubstr("| unattributed | -     |     - | 2.000 |"));
  // From 95 % on the rest is no row.
  pass.times[1].ns = 3.6e6;
  EXPECT_EQ(kernels_json(pass, {})["rows"].size(), 2u);
  EXPECT_TRUE(kernels_json(pass, {})["rows"][0]["share_of_ceiling"].is_null());
  EXPECT_EQ(kernels_text(nullptr), "");
}

// The further pass is none of the measured ones, and its products are those of one pass. Mutant:
// bench_kernel_pass_measured.
TEST(BenchKernels, AFurtherPassHoldsEveryProductOfOne) {
  TempFolder temp;
  synth_checkpoint(tiny_request(tiny_llama()), temp / "m");
  Options options;
  options.kernels = true;
  BenchModel model = open_bench_model(temp / "m", options, {.n_batch = 16, .n_parallel = 1, .max_tokens = 80});
  const BenchTest test{.n_prompt = 40, .n_gen = 12, .n_depth = 20, .joint = true};
  const BenchResult r = run_bench_test(model, test, some_ids(60), {.repeats = 2});
  ASSERT_EQ(r.passes.size(), 2u);
  ASSERT_TRUE(r.kernels);
  uint64_t products = 0;
  double ns = 0;
  for (const OpTime& t : r.kernels->times) {
    if (!t.route.empty()) products += t.calls;
    ns += t.ns;
    EXPECT_GT(t.bytes, 0) << t.name;
  }
  // Seven weights in each of two layers; three forwards of the prompt with one row of logits, twelve of a token.
  EXPECT_EQ(products, 3u * 14 + 1 + 12 * (14 + 1));
  EXPECT_LE(ns, r.kernels->ns);
  for (const BenchPass& p : r.passes) EXPECT_EQ(p.counters.allocations, 0u);
  EXPECT_GT(r.counters_warmup.allocations, 0u);
}

}  // namespace
}  // namespace loft
