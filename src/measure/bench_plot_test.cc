#include "measure/bench_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;
using testing::Not;

OrderedJson model_row(const char* arm, int64_t depth, double ts) {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "models/a<b> & \"c\"", .n_threads = 2}, {.n_gen = 128, .n_depth = depth});
  row["arm"] = arm;
  row["median_ts"] = ts;
  row["min_ts"] = ts * 0.9;
  row["max_ts"] = ts * 1.2;
  row["gbps"] = ts / 10;
  row["ceiling_gbps"] = 20;
  row["status"] = "ok";
  return row;
}

OrderedJson product_row(const char* kernel, int m, double us) {
  return {{"schema", "loft.bench.qmm/1"},
          {"format", "affine4g64"},
          {"x_dtype", "f32"},
          {"n", 64},
          {"k", 64},
          {"m", m},
          {"kernel", kernel},
          {"n_threads", 2},
          {"median_us", us},
          {"min_us", us / 2},
          {"max_us", us * 2},
          {"gbps", 100 / us},
          {"tflops", m / us},
          {"status", "ok"}};
}

std::vector<OrderedJson> model_rows() {
  return {model_row("new", 0, 110), model_row("base", 512, 90), model_row("base", 0, 100), model_row("new", 512, 95),
          model_row("base", 0, 104)};
}

// Mutant: bench_series_order.
TEST(BenchPlot, SeriesAreSortedAndEqualPlacesBecomeOnePoint) {
  const Plot plot = plot_rows(model_rows(), "depth", "ts", "");
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_EQ(plot.series[0].name, "base");
  EXPECT_EQ(plot.series[1].name, "new");
  ASSERT_EQ(plot.series[0].points.size(), 2u);
  EXPECT_EQ(plot.series[0].points[0].x, 0);
  EXPECT_EQ(plot.series[0].points[0].y, 102);
  EXPECT_DOUBLE_EQ(plot.series[0].points[0].lo, 90);
  EXPECT_DOUBLE_EQ(plot.series[0].points[0].hi, 124.8);
  EXPECT_EQ(plot.series[0].points[1].y, 90);
  EXPECT_THAT(plot.title, HasSubstr("decode"));
  EXPECT_FALSE(plot.ceiling);
  EXPECT_EQ(plot_rows(model_rows(), "depth", "gbps", "").ceiling, 20);
}

TEST(BenchPlot, ProductsAreSeriesByKernelOverM) {
  const std::vector<OrderedJson> rows = {product_row("b", 8, 4), product_row("a", 1, 2), product_row("b", 1, 3)};
  const Plot plot = plot_rows(rows, "M", "gbps", "xy");
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_EQ(plot.series[1].name, "b");
  EXPECT_EQ(plot.series[1].points[1].x, 8);
  // A rate's range is that of the time, turned round.
  EXPECT_DOUBLE_EQ(plot.series[1].points[1].lo, 25.0 / 2);
  EXPECT_DOUBLE_EQ(plot.series[1].points[1].hi, 25.0 * 2);
  EXPECT_EQ(plot.title, "64x64, affine4g64, f32, 2 threads");
  EXPECT_EQ(plot_rows(rows, "M", "us", "").series[1].points[1].y, 4);
}

/// Whether every tag is closed in order: enough of XML for what is written here.
std::string fault_of_xml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "odd quotes in " + tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  for (size_t at = 0; (at = text.find('&', at)) != std::string::npos; ++at) {
    if (text.substr(at, 8).find(';') == std::string::npos) return "a bare &";
  }
  return open.empty() ? "" : "left open: " + open.back();
}

// Mutant: bench_svg_unescaped ("left open: b").
TEST(BenchPlot, SvgIsWellFormedAndTheSameTwice) {
  std::vector<OrderedJson> rows = model_rows();
  rows.push_back(model_row("<evil> & \"odd\"", 0, 50));
  const std::string svg = svg_text(plot_rows(rows, "depth", "gbps", ""));
  EXPECT_EQ(fault_of_xml(svg), "");
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("&lt;evil&gt; &amp; &quot;odd&quot;"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr("<title>base, 512: 9 "));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  std::reverse(rows.begin(), rows.end());
  EXPECT_EQ(svg_text(plot_rows(rows, "depth", "gbps", "")), svg);
  const std::vector<OrderedJson> products = {product_row("a", 1, 2), product_row("a", 512, 300)};
  EXPECT_EQ(fault_of_xml(svg_text(plot_rows(products, "M", "tflops", "xy"))), "");
  EXPECT_EQ(fault_of_xml(svg_text(plot_rows(std::span(products).first(1), "M", "us", "xy"))), "");
}

TEST(BenchPlot, ColumnsForGnuplot) {
  EXPECT_EQ(dat_text(plot_rows(model_rows(), "depth", "ts", "")),
            "# a<b> & \"c\", decode, tg128, 2 threads\n# x: tokens in the cache before  y: tokens a second\n"
            "\n\n# base\n0 102 90 124.8\n512 90 81 108\n"
            "\n\n# new\n0 110 99 132\n512 95 85.5 114\n");
}

TEST(BenchPlot, WordsThatMeanNothingAreRefused) {
  const std::vector<OrderedJson> rows = model_rows();
  EXPECT_THAT(error_of([&] { plot_rows(rows, "m", "ts", ""); }), HasSubstr("--x: found 'm'"));
  EXPECT_THAT(error_of([&] { plot_rows(rows, "M", "speed", ""); }), HasSubstr("--y: found 'speed'"));
  EXPECT_THAT(error_of([&] { plot_rows(rows, "M", "ts", "z"); }), HasSubstr("--log: found 'z'"));
  EXPECT_THAT(error_of([&] { plot_rows(rows, "M", "us", ""); }), HasSubstr("no row has both M and us"));
}

}  // namespace
}  // namespace loft
