// The model part of the benchmark, over tiny checkpoints.
#include "measure/bench_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/bench_group.h"
#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;

// Products of a forward of tiny_llama: five weights in each of two layers (q, k and v are one), and the head.
constexpr uint64_t kBody = 10, kHead = 1;

class BenchRunTest : public testing::Test {
 protected:
  void SetUp() override {
    synth_checkpoint(tiny_request(tiny_llama()), temp_ / "m");
    options_.ceiling = "off";
  }
  BenchModel open(const BenchSizes& sizes) { return open_bench_model(temp_ / "m", options_, sizes); }
  static uint64_t n_products(const QmmStats& s) {
    uint64_t n = 0;
    for (const auto& [name, count] : s.kernels) n += count;
    return n;
  }
  std::vector<OrderedJson> group_rows(const BenchGroupRun& run) {
    std::vector<OrderedJson> rows;
    run_bench_group(run, [&](const OrderedJson& row) { rows.push_back(row); });
    return rows;
  }

  TempFolder temp_;
  Options options_;
  OrderedJson none_ = nullptr;
};

TEST_F(BenchRunTest, CountersAreThoseOfTheForwardsThatTheTestNames) {
  BenchModel model = open({.n_batch = 16, .n_parallel = 1, .max_tokens = 80});
  const BenchTest test{.n_prompt = 40, .n_gen = 12, .n_depth = 20, .joint = true};
  const BenchResult r = run_bench_test(model, test, some_ids(60), {.repeats = 2, .warmup_tokens = 5});
  ASSERT_EQ(r.passes.size(), 2u);  // Mutant: bench_warmup_counted (3).
  for (const BenchPass& p : r.passes) {
    // 40 rows in chunks of 16, logits of the last row only; one forward a token. Mutant: bench_one_forward_less.
    EXPECT_EQ(p.n_forwards, 3 + 12);
    EXPECT_EQ(n_products(p.qmm), 3 * kBody + kHead + 12 * (kBody + kHead));
    EXPECT_GT(p.pp_ns, 0);
    EXPECT_GT(p.tg_ns, 0);
  }
  // The discarded pass also reads the 20 tokens at depth, in two chunks.
  const uint64_t depth = 2 * kBody + kHead;
  EXPECT_EQ(n_products(r.qmm_warmup), depth + 3 * kBody + kHead + 5 * (kBody + kHead));
  EXPECT_EQ(n_products(r.qmm_total),
            n_products(r.qmm_warmup) + n_products(r.passes[0].qmm) + n_products(r.passes[1].qmm));
  EXPECT_EQ(r.last_ids.size(), 20u + 40 + 1 + 12);
}

TEST_F(BenchRunTest, EveryPassDoesTheSameWork) {
  for (const BenchTest& test : {BenchTest{.n_gen = 6, .n_depth = 9}, BenchTest{.n_gen = 6}, BenchTest{.n_prompt = 9}}) {
    SCOPED_TRACE(test_name(test));
    BenchModel model = open({.n_batch = 64, .n_parallel = 2, .max_tokens = 40});
    const std::vector<int32_t> ids = some_ids(9);
    const BenchResult one = run_bench_test(model, test, ids, {.repeats = 1, .has_warmup = false});
    const BenchResult many = run_bench_test(model, test, ids, {.repeats = 3});
    // Mutant: bench_depth_forgotten.
    EXPECT_EQ(one.last_ids, many.last_ids);
    EXPECT_EQ(one.passes[0].qmm.kernels, many.passes[2].qmm.kernels);
    EXPECT_EQ(one.passes[0].n_forwards, many.passes[2].n_forwards);
  }
}

TEST_F(BenchRunTest, RatesCountTheTokensOfAllSequences) {
  BenchResult r;
  r.passes = {{.pp_ns = 1000000000, .tg_ns = 500000000}};
  const BenchTest test{.n_prompt = 10, .n_gen = 4, .joint = true};
  EXPECT_THAT(pp_rates(r, test, 3), testing::ElementsAre(30));
  EXPECT_THAT(tg_rates(r, test, 3), testing::ElementsAre(24));
  EXPECT_THAT(pass_rates(r, test, 3), testing::ElementsAre(28));
  EXPECT_TRUE(tg_rates(r, {.n_prompt = 10}, 3).empty());
}

TEST_F(BenchRunTest, MemoryBelongsToItsPhase) {
  constexpr size_t kBytes = size_t(64) << 20;
  BenchModel model = open({.n_batch = 64, .n_parallel = 1, .max_tokens = 40});
  Backend& backend = *model.parts.backend;
  Buffer kept;
  BenchRunOptions options{.repeats = 1};
  options.on_phase = [&](const std::string& phase) {
    if (phase == "warmup_start") kept = backend.allocate(kBytes);
    if (phase == "warmup_start") backend.allocate(3 * kBytes);  // gone at once
  };
  const BenchResult r = run_bench_test(model, {.n_prompt = 20}, some_ids(20), options);
  EXPECT_GE(r.warmup.active_bytes, model.load.active_bytes + kBytes);
  EXPECT_LT(r.warmup.active_bytes, model.load.active_bytes + 2 * kBytes);
  EXPECT_GE(r.warmup.peak_bytes, model.load.active_bytes + 4 * kBytes);
  // Mutant: bench_peak_not_reset.
  EXPECT_LT(r.measured.peak_bytes, model.load.active_bytes + 2 * kBytes);
  EXPECT_EQ(r.measured.active_bytes, r.warmup.active_bytes);
}

TEST_F(BenchRunTest, DenseWeightsThatTheCacheKeepsAreActiveAfterTheWarmUp) {
  options_.qmm_fused = "off";
  options_.qmm_dequant_m_threshold = 8;
  options_.qmm_dequant_cache = "lru";
  BenchModel model = open({.n_batch = 64, .n_parallel = 1, .max_tokens = 64});
  const BenchResult r = run_bench_test(model, {.n_prompt = 32}, some_ids(32), {.repeats = 1});
  EXPECT_EQ(r.qmm_total.cache.misses, 2 * kBody);
  EXPECT_EQ(r.passes[0].qmm.cache.misses, kBody);
  EXPECT_GT(r.qmm_total.cache.bytes, 0u);
  EXPECT_GE(r.warmup.active_bytes, model.load.active_bytes + r.qmm_total.cache.bytes);
}

TEST_F(BenchRunTest, WhatDoesNotFitIsSkippedBeforeAnythingIsLoaded) {
  // A tokenizer that cannot be read shows that loading was never tried. Mutant: bench_loads_before_asking.
  write_text_file(temp_ / "m" / "tokenizer.json", "no json");
  options_.mem_fraction = 1e-9;
  const std::vector<OrderedJson> rows = group_rows({.folder = temp_ / "m",
                                                    .options = options_,
                                                    .tests = {{.n_prompt = 8}, {.n_gen = 4}},
                                                    .build = none_,
                                                    .options_json = none_});
  ASSERT_EQ(rows.size(), 2u);
  for (const OrderedJson& row : rows) {
    EXPECT_EQ(row_text(row, "status"), "SKIP:oom_estimate");
    EXPECT_GT(row_number(row["mem"]["estimate"], "weight_bytes"), 0);
    EXPECT_THAT(row_text(row, "error"), HasSubstr("needs about"));
  }
}

TEST_F(BenchRunTest, TheEstimateIsAboutWhatIsTaken) {
  const BenchSizes sizes{.n_batch = 64, .n_parallel = 3, .max_tokens = 100};
  const MemoryEstimate e = estimate_memory(temp_ / "m", options_, sizes);
  BenchModel model = open(sizes);
  const BenchResult r = run_bench_test(model, {.n_prompt = 60, .n_gen = 40}, some_ids(60), {.repeats = 1});
  // Weights stay mapped on the CPU; norms, frequencies and scratch of attention are in no estimate.
  const double taken = double(e.total() - e.plan.weight_bytes);
  EXPECT_GE(double(r.measured.peak_bytes), taken);
  EXPECT_LT(double(r.measured.peak_bytes), 1.3 * taken);
  EXPECT_EQ(e.dense_bytes, 0u);
  options_.qmm_panel_bytes = 0;
  EXPECT_EQ(estimate_memory(temp_ / "m", options_, sizes).dense_bytes, 320u * 128 * 4);
}

TEST_F(BenchRunTest, ARowHasEveryKeyAndConsistentFigures) {
  const BenchGroup group{.model = "m", .n_batch = 16, .n_parallel = 2};
  const std::vector<OrderedJson> rows = group_rows({.folder = temp_ / "m",
                                                    .options = options_,
                                                    .group = group,
                                                    .tests = {{.n_prompt = 20, .n_gen = 10, .joint = true}},
                                                    .run = {.repeats = 3},
                                                    .build = none_,
                                                    .options_json = none_});
  ASSERT_EQ(rows.size(), 1u);
  const OrderedJson& row = rows[0];
  size_t i = 0;
  for (const auto& [key, value] : row.items()) EXPECT_EQ(key, bench_row_keys()[i++]);
  EXPECT_EQ(i, bench_row_keys().size());
  EXPECT_EQ(row_text(row, "status"), "ok");
  EXPECT_EQ(row_text(row, "test"), "pp20+tg10");
  EXPECT_EQ(row["samples_ns"].size(), 3u);
  EXPECT_EQ(row["qmm"]["passes"].size(), 3u);
  EXPECT_LE(row_number(row, "min_ts"), row_number(row, "median_ts"));
  EXPECT_LE(row_number(row, "median_ts"), row_number(row, "max_ts"));
  EXPECT_EQ(row["model_id"].get<std::string>().size(), 64u);
  EXPECT_EQ(row["share"], nullptr);  // the ceiling is off
}

TEST_F(BenchRunTest, ALogitThatIsNoNumberFailsItsTestOnly) {
  edit_tensors(temp_ / "m", [](Tensors& tensors) {
    OwnedTensor& norm = tensors.at("model.norm.weight");
    norm = float_tensor(norm.shape, std::vector<float>(128, NAN));
  });
  const std::vector<OrderedJson> rows = group_rows({.folder = temp_ / "m",
                                                    .options = options_,
                                                    .tests = {{.n_prompt = 8}, {.n_gen = 4}},
                                                    .run = {.repeats = 1},
                                                    .build = none_,
                                                    .options_json = none_});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(row_text(rows[0], "status"), "FAIL:nonfinite");
  EXPECT_EQ(row_text(rows[1], "status"), "FAIL:nonfinite");
  EXPECT_EQ(rows[0]["median_ts"], nullptr);
}

TEST_F(BenchRunTest, IdsAreExactlyAsManyAsAskedForAndTheSameEachTime) {
  const Tokenizer tokenizer = Tokenizer::load(temp_ / "m");
  for (const int64_t n : {1, 7, 5000}) {
    EXPECT_EQ(text_ids(tokenizer, "", n).size(), size_t(n));
    EXPECT_EQ(text_ids(tokenizer, "", n), text_ids(tokenizer, "", n));
    EXPECT_EQ(random_ids(tokenizer, 320, 3, n), random_ids(tokenizer, 320, 3, n));
  }
  EXPECT_NE(random_ids(tokenizer, 320, 3, 100), random_ids(tokenizer, 320, 4, 100));
  for (const int32_t id : random_ids(tokenizer, 50, 1, 1000)) EXPECT_LT(id, 50);
}

TEST_F(BenchRunTest, WorkIsBytesAndProductsOfEveryForward) {
  const ModelWork w = model_work(temp_ / "m");
  // q 128, k and v 64 each, o 128 over 128; gate and up 256 over 128, down 128 over 256; two layers.
  EXPECT_EQ(w.body_mul_adds, 2u * (128 * 128 + 2 * 64 * 128 + 128 * 128 + 3 * 256 * 128));
  EXPECT_EQ(w.head_mul_adds, 320u * 128);
  EXPECT_EQ(w.body_bytes + w.head_bytes, w.file_bytes);  // tied: the table is the head
  const TestWork pp = test_work(w, {.n_prompt = 20}, 16, 1, DType::F16);
  const double kv_row = 2 * 2 * 64 * 2;  // two layers, keys and values, two heads of 32 in f16
  EXPECT_EQ(pp.flops, 2.0 * (20.0 * double(w.body_mul_adds) + double(w.head_mul_adds)));
  EXPECT_EQ(pp.bytes, 2.0 * double(w.body_bytes) + double(w.head_bytes) + kv_row * (16 + 20));
  const TestWork tg = test_work(w, {.n_gen = 2, .n_depth = 10}, 16, 3, DType::F16);
  EXPECT_EQ(tg.bytes, 2.0 * double(w.file_bytes) + 3 * kv_row * (11 + 12));
  EXPECT_EQ(tg.flops, 2.0 * 2 * 3 * double(w.body_mul_adds + w.head_mul_adds));
}

}  // namespace
}  // namespace loft
