#include "measure/bench_qmm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;

Options small_options() {
  Options o;
  o.shape = {"96x128"};
  o.m_rows = {"1,5"};
  o.format = "affine4g64,affine8g32,mxfp4,nvfp4,mxfp8,dense";
  return o;
}

std::vector<OrderedJson> run(const Options& o, const std::string& which) {
  std::vector<OrderedJson> rows;
  const OrderedJson base = {{"cpu_info", "here"}};
  run_qmm_bench(plan_qmm_bench(o, which),
                {.options = o, .repeats = 1, .is_warm = true, .ceiling_gbps = 10, .base = base},
                [&](const OrderedJson& row) { rows.push_back(row); });
  return rows;
}

// Every row of the table that can run here is measured, and each result is right. Mutant: bench_rows_out_of_range (a
// kernel for one row of x run at five: FAIL:wrong).
TEST(BenchQmm, EveryRowIsMeasuredAndChecked) {
  std::set<std::string> kernels;
  for (const auto& [dtype, repack] : {std::pair("f32", "off"), std::pair("bf16", "off"), std::pair("bf16", "on")}) {
    Options o = small_options();
    o.dtype = dtype;
    o.cpu_repack = repack;
    std::set<std::string> formats;
    size_t n_chosen = 0;
    for (const OrderedJson& row : run(o, "all")) {
      SCOPED_TRACE(dump_json(row));
      EXPECT_EQ(row_text(row, "status"), "ok");
      EXPECT_LT(row_number(row, "error"), 4e-3);
      EXPECT_GT(row_number(row, "median_us"), 0);
      EXPECT_EQ(row_text(row, "x_dtype"), dtype);
      EXPECT_NEAR(row_number(row, "share"), row_number(row, "gbps") / 10, 1e-6);
      formats.insert(row_text(row, "format"));
      kernels.insert(row_text(row, "kernel"));
      n_chosen += row["chosen"] == true ? 1 : 0;
      EXPECT_EQ(row["cpu_info"], "here");
    }
    EXPECT_EQ(formats.size(), 6u);
    EXPECT_EQ(n_chosen, 12u) << "one for each format and m";
  }
  EXPECT_GE(kernels.size(), 2u);
  const auto is_packed = [](const std::string& name) { return name.find("panel16") != std::string::npos; };
  EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), is_packed)) << "packed weights are measured too";
}

TEST(BenchQmm, WithoutARouteOnlyTheChosenRowRuns) {
  Options o = small_options();
  o.format = "affine4g64";
  const std::vector<QmmBenchCase> cases = plan_qmm_bench(o, "");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_TRUE(cases[0].is_chosen);
  EXPECT_EQ(plan_qmm_bench(o, cases[0].kernel).front().kernel, cases[0].kernel);
}

TEST(BenchQmm, MistakesAreNamed) {
  Options o = small_options();
  EXPECT_THAT(error_of([&] { plan_qmm_bench(o, "qmm_nothing"); }), HasSubstr("--route"));
  o.shape = {"96x100"};
  EXPECT_THAT(error_of([&] { plan_qmm_bench(o, ""); }), HasSubstr("no multiple of the group"));
  o.format = "affine9";
  EXPECT_THAT(error_of([&] { plan_qmm_bench(o, ""); }), HasSubstr("--format"));
}

TEST(BenchQmm, FittedRoutesNameTheFastestRowFromEachM) {
  std::vector<OrderedJson> rows;
  const auto add = [&](int m, const char* kernel, double us) {
    rows.push_back({{"format", "affine4g64"},
                    {"x_dtype", "f32"},
                    {"n", 64},
                    {"k", 64},
                    {"m", m},
                    {"kernel", kernel},
                    {"median_us", us},
                    {"cpu_info", "a chip"},
                    {"status", "ok"}});
  };
  add(1, "vector", 1);
  add(1, "matrix", 2);
  add(4, "vector", 4);
  add(4, "matrix", 5);
  add(8, "vector", 8);
  add(8, "matrix", 6);
  add(16, "matrix", 7);
  rows.push_back(rows.back());
  rows.back()["kernel"] = "wrong";
  rows.back()["median_us"] = 0.1;
  rows.back()["status"] = "FAIL:wrong";
  EXPECT_EQ(fit_routes_text(rows, "loft bench qmm"),
            "// loft bench qmm\n// a chip\n// affine4g64 f32 64x64: m >= 1: vector; m >= 8: matrix\n");
}

}  // namespace
}  // namespace loft
