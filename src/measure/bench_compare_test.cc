#include "measure/bench_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "measure/bench_row.h"

namespace loft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OrderedJson row_of(const std::vector<double>& samples, const char* date = "2026-09-30T10:00:00Z") {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "models/m"}, {.n_gen = 128});
  row["model_id"] = "id";
  row["quant"] = "affine4g64";
  row["host"] = {{"name", "h"}, {"cpu", "c"}, {"kernel", "6"}, {"ram", 1}};
  row["build"] = {{"type", "Release"}};
  row["build_commit"] = "abc";
  row["device"] = {{"name", "cpu"}};
  row["prompt_id"] = "p";
  row["options"] = OrderedJson::array();
  row["samples_ts"] = samples;
  row["median_ts"] = median_of(samples);
  row["mem"] = {{"measured", {{"peak_bytes", 1000000}}}};
  row["qmm"] = {{"passes", {{{"kernels", {{"k", 3}}}}}}};
  row["test_time"] = date;
  row["status"] = "ok";
  return row;
}

const std::vector<double> kOld = {100, 101, 102, 103, 104}, kSlow = {90, 91, 92, 93, 94};

BenchComparison compared(const OrderedJson& a, const OrderedJson& b, bool allow = false) {
  return compare_benches(std::vector<OrderedJson>{a}, std::vector<OrderedJson>{b}, allow);
}

TEST(BenchCompare, FiguresOfAPair) {
  OrderedJson slower = row_of(kSlow, "2026-10-01T09:00:00Z");
  slower["mem"]["measured"]["peak_bytes"] = 3000000;
  slower["qmm"]["passes"][0]["kernels"]["k"] = 4;
  const BenchComparison c = compared(row_of(kOld), slower);
  ASSERT_EQ(c.pairs.size(), 1u);
  const BenchPair& p = c.pairs[0];
  EXPECT_NEAR(p.ratio, 92.0 / 102, 1e-12);
  EXPECT_EQ(p.shift.shift, -10);
  EXPECT_EQ(p.shift.lo, -13);
  EXPECT_EQ(p.shift.hi, -7);
  EXPECT_TRUE(p.differs);
  EXPECT_FALSE(p.same_kernels);
  EXPECT_EQ(p.peak_change_bytes, 2000000);
  // Mutant: bench_dates_as_numbers (71).
  EXPECT_EQ(c.days_apart, 1);
  EXPECT_THAT(bench_comparison_text(c), HasSubstr("differs (unpaired)"));
  EXPECT_EQ(bench_comparison_json(c)["pairs"][0]["shift"], -10);
}

TEST(BenchCompare, TheGateAsksTheUpperEndOfTheInterval) {
  const BenchComparison c = compared(row_of(kOld), row_of(kSlow));  // shift -13 to -7 of 102
  EXPECT_EQ(bench_comparison_status(c, std::nullopt), 0);
  EXPECT_EQ(bench_comparison_status(c, 0.0), 1);
  EXPECT_EQ(bench_comparison_status(c, 6.8), 1);
  EXPECT_EQ(bench_comparison_status(c, 7.0), 0);
  EXPECT_EQ(bench_comparison_status(compared(row_of(kSlow), row_of(kOld)), 0.0), 0);
  EXPECT_EQ(bench_comparison_status(compared(row_of({1, 2}), row_of({1, 2})), 0.0), 6) << "too few samples";
  EXPECT_EQ(bench_comparison_status({}, 0.0), 6);
}

TEST(BenchCompare, RowsThatSayNothingAboutEachOtherAreDroppedWithTheReason) {
  const OrderedJson base = row_of(kOld);
  const std::vector<std::pair<std::function<void(OrderedJson&)>, std::string>> changes = {
      {[](OrderedJson& r) { r["host"]["cpu"] = "other"; }, "host cpu differs"},
      {[](OrderedJson& r) { r["host"]["name"] = "other"; }, "host name differs"},
      {[](OrderedJson& r) { r["build"]["type"] = "Debug"; }, "build type differs"},
      {[](OrderedJson& r) {
         r["guard"] = {{"attempt", 1}};
       },
       "one was guarded, the other was not"},
      {[](OrderedJson& r) { r["prompt_id"] = "q"; }, "prompt ids differ"},
      {[](OrderedJson& r) { r["build_commit"] = "def"; }, "commit differs (--allow-commit-change)"},
      {[](OrderedJson& r) { r["status"] = "FAIL:bench"; }, "status ok and FAIL:bench"}};
  for (const auto& [change, why] : changes) {
    OrderedJson other = base;
    change(other);
    const BenchComparison c = compared(base, other);
    EXPECT_TRUE(c.pairs.empty());
    EXPECT_THAT(c.dropped, ElementsAre("m tg128 (b2048 t0 np1): " + why));
  }
  OrderedJson commit = base;
  commit["build_commit"] = "def";
  EXPECT_EQ(compared(base, commit, true).pairs.size(), 1u);
}

// Mutant: bench_join_without_model pairs the rows of two models.
TEST(BenchCompare, OtherWorkIsNotJoined) {
  for (const char* key : {"model_id", "quant", "test", "arm"}) {
    OrderedJson other = row_of(kOld);
    other[key] = "other";
    const BenchComparison c = compared(row_of(kOld), other);
    EXPECT_TRUE(c.pairs.empty() && c.dropped.empty()) << key;
    EXPECT_EQ(c.only_old.size(), 1u);
    EXPECT_EQ(c.only_new.size(), 1u);
  }
  OrderedJson options = row_of(kOld);
  options["options"].push_back({{"name", "qmm-fused"}, {"value", "off"}});
  EXPECT_TRUE(compared(row_of(kOld), options).pairs.empty());
}

TEST(BenchCompare, DaysAreThoseOfTheCalendar) {
  EXPECT_EQ(days_between("2026-09-30", "2026-10-01"), 1);
  EXPECT_EQ(days_between("2024-02-28T01", "2024-03-01"), 2);
  EXPECT_EQ(days_between("2027-01-01", "2026-12-31"), -1);
  EXPECT_EQ(days_between("2026-02-30", "2026-03-01"), std::nullopt);
  EXPECT_EQ(days_between("", "2026-03-01"), std::nullopt);
}

}  // namespace
}  // namespace loft
