// Experiments with arms whose times are written down, so that every verdict is known.
#include "measure/bench_arms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OrderedJson row_of(double ts, const char* status = "ok") {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "m"}, {.n_gen = 128});
  row["median_ts"] = ts;
  row["status"] = status;
  return row;
}

using Speed = std::function<double(const std::string& arm, size_t round)>;
struct Experiment {
  ArmsReport report;
  std::vector<std::pair<size_t, std::string>> order;  // as measured
};
Experiment run(size_t n_rounds, const Speed& speed, std::vector<OrderedJson> earlier = {}) {
  Experiment e;
  ArmsRun r;
  r.arms = parse_arms({"base=", "new=-t 2"}, false);
  r.n_rounds = n_rounds;
  r.earlier = std::move(earlier);
  r.measure = [&](const BenchArm& arm, size_t round) {
    e.order.emplace_back(round, arm.name);
    const double ts = speed(arm.name, round);
    return ts > 0 ? std::vector<OrderedJson>{row_of(ts)} : std::vector<OrderedJson>{row_of(0, "FAIL:bench")};
  };
  e.report = run_arms(r);
  return e;
}

/// 1 +- 0.4 %, another each round.
double noise(size_t round) {
  return 1 + 0.004 * (double(round * 7 % 12) / 6 - 1);
}

TEST(BenchArms, NamesAndTheNullArm) {
  const auto arms = parse_arms({"base=", "new=--opt 'a b'"}, false);
  ASSERT_EQ(arms.size(), 3u);
  EXPECT_EQ(arms[2].name, "base-null");
  EXPECT_EQ(arms[2].source, 0u);
  EXPECT_THAT(arms[1].words, ElementsAre("--opt", "a b"));
  EXPECT_EQ(parse_arms({"a=", "b="}, true).size(), 4u);
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{{"base", "NAME="},
                                                                                  {"=-t 1", "found the name ''"},
                                                                                  {"a b=", "found the name"},
                                                                                  {"x-null=", "the tool's own"}}) {
    EXPECT_THAT(error_of([&, &t = text] { parse_arms({t}, false); }), HasSubstr(why));
  }
  EXPECT_THAT(error_of([] { parse_arms({"a=", "a="}, false); }), HasSubstr("given twice"));
}

// Seen to fail: the order 0, 1, 2 in every round. Mutant: bench_fixed_order.
TEST(BenchArms, OrdersAreBalancedOverACycle) {
  for (const size_t n : {2u, 3u}) {
    const size_t cycle = n == 2 ? 2 : 6;
    std::map<std::pair<size_t, size_t>, size_t> places, behind;
    for (size_t round = 0; round < 2 * cycle; ++round) {
      const std::vector<size_t> order = round_order(n, round);
      for (size_t place = 0; place < n; ++place) ++places[{order[place], place}];
      for (size_t place = 1; place < n; ++place) ++behind[{order[place - 1], order[place]}];
    }
    EXPECT_EQ(places.size(), n * n);
    for (const auto& [key, count] : places) EXPECT_EQ(count, 2 * cycle / n);
    EXPECT_EQ(behind.size(), n * (n - 1));
    for (const auto& [key, count] : behind) EXPECT_EQ(count, 2 * cycle / n);
  }
  std::map<std::pair<size_t, size_t>, size_t> places;
  std::set<std::vector<size_t>> orders;
  for (size_t round = 0; round < 20; ++round) {
    const std::vector<size_t> order = round_order(5, round);
    orders.insert(order);
    for (size_t place = 0; place < 5; ++place) ++places[{order[place], place}];
  }
  for (const auto& [key, count] : places) EXPECT_EQ(count, 4u);
  EXPECT_GT(orders.size(), 10u);
  EXPECT_EQ(round_order(5, 7), round_order(5, 7));
}

TEST(BenchArms, AGainOfThreePercentIsFound) {
  const Experiment e = run(12, [](const std::string& arm, size_t round) {
    return 100 * noise(round + (arm == "base-null" ? 6 : 0)) * (arm == "new" ? 1.03 : 1);
  });
  ASSERT_EQ(e.report.figures.size(), 1u);
  const ArmFigures& f = e.report.figures[0];
  EXPECT_EQ(f.metric, "tg128");
  EXPECT_EQ(f.arm, "new");
  EXPECT_EQ(f.verdict, ArmVerdict::Faster);
  EXPECT_NEAR(f.ratio.median, 1.03, 1e-9);
  EXPECT_NEAR(f.ratio.coverage, 0.9614, 1e-4);
  // The null arm was measured by itself. Mutant: bench_null_copied (null interval 1..1).
  EXPECT_NE(f.null.lo, 1.0);
  EXPECT_EQ(e.order.size(), 36u);
  EXPECT_EQ(arms_exit_status(e.report, 0.0), 0);
  EXPECT_THAT(arms_text(e.report), HasSubstr("| tg128 | new |"));
  EXPECT_EQ(arms_json(e.report)["figures"][0]["verdict"], "faster");
}

TEST(BenchArms, IntervalsAreTheThirdAndTenthOfTwelve) {
  std::vector<double> ratios;
  for (int i = 1; i <= 12; ++i) ratios.push_back(i);
  const RatioFigures f = ratio_figures(ratios);
  EXPECT_EQ(f.lo, 3);  // Mutant: bench_interval_rank.
  EXPECT_EQ(f.hi, 10);
  EXPECT_EQ(f.median, 6.5);
}

TEST(BenchArms, EqualArmsADriftingNullAndFewRoundsAreUnresolved) {
  const auto equal = run(12, [](const std::string& arm, size_t round) {
    return 100 * noise(round + (arm == "base" ? 0 : arm == "new" ? 3 : 7));
  });
  EXPECT_EQ(equal.report.figures[0].verdict, ArmVerdict::Unresolved);
  // The machine made the second run of the same build 4 % faster too: whatever `new` shows is not its own.
  const auto drifting = run(12, [](const std::string& arm, size_t round) {
    return 100 * noise(round) * (arm == "base" ? 1 : arm == "new" ? 1.03 : 1.04);
  });
  EXPECT_EQ(drifting.report.figures[0].verdict, ArmVerdict::Unresolved);
  const auto few = run(5, [](const std::string& arm, size_t round) {
    return 100 * noise(round + (arm == "base-null" ? 6 : 0)) * (arm == "new" ? 1.5 : 1);
  });
  EXPECT_EQ(few.report.figures[0].verdict, ArmVerdict::Unresolved);
  EXPECT_EQ(arms_exit_status(few.report, 0.0), 6);
  EXPECT_EQ(arms_exit_status(few.report, std::nullopt), 0);
}

TEST(BenchArms, JudgeWantsAllThreeConditions) {
  const RatioFigures null{.median = 1.001, .lo = 0.99, .hi = 1.01};
  EXPECT_EQ(judge({.median = 1.03, .lo = 1.02, .hi = 1.04}, null, 6), ArmVerdict::Faster);
  EXPECT_EQ(judge({.median = 0.97, .lo = 0.96, .hi = 0.98}, null, 6), ArmVerdict::Slower);
  EXPECT_EQ(judge({.median = 1.03, .lo = 1.00, .hi = 1.04}, null, 6), ArmVerdict::Unresolved);
  EXPECT_EQ(judge({.median = 1.03, .lo = 1.02, .hi = 1.04}, null, 5), ArmVerdict::Unresolved);
  EXPECT_EQ(judge({.median = 1.03, .lo = 1.02, .hi = 1.04}, {.median = 1.01, .lo = 1.001, .hi = 1.02}, 6),
            ArmVerdict::Unresolved);
  EXPECT_EQ(judge({.median = 1.003, .lo = 1.001, .hi = 1.005}, {.median = 0.99, .lo = 0.95, .hi = 1.01}, 6),
            ArmVerdict::Unresolved);
}

TEST(BenchArms, ASlowerArmEndsTheGateWithOne) {
  const auto e = run(6, [](const std::string& arm, size_t round) {
    return 100 * noise(round + (arm == "base-null" ? 6 : 0)) * (arm == "new" ? 0.95 : 1);
  });
  EXPECT_EQ(e.report.figures[0].verdict, ArmVerdict::Slower);
  EXPECT_EQ(arms_exit_status(e.report, parse_gate("slower")), 1);
  EXPECT_EQ(arms_exit_status(e.report, parse_gate("slower:3")), 1);
  EXPECT_EQ(arms_exit_status(e.report, parse_gate("slower:8")), 0);
  EXPECT_THAT(error_of([] { parse_gate("slower:"); }), HasSubstr("slower:PERCENT"));
  EXPECT_THAT(error_of([] { parse_gate("faster"); }), HasSubstr("--fail-on"));
}

TEST(BenchArms, AFailedArmDropsItsRoundWhole) {
  const auto e = run(12, [](const std::string& arm, size_t round) {
    return arm == "new" && round == 4 ? 0.0 : 100 * noise(round) * (arm == "new" ? 1.1 : 1);
  });
  EXPECT_EQ(e.report.n_rounds, 11u);
  EXPECT_EQ(e.report.n_dropped, 1u);
  EXPECT_NEAR(e.report.figures[0].base_median, 100, 0.4);
  EXPECT_EQ(arms_exit_status(e.report, std::nullopt), 0);
  const auto bad =
      run(12, [](const std::string& arm, size_t round) { return arm == "new" && round % 4 == 0 ? 0.0 : 100; });
  EXPECT_EQ(bad.report.n_dropped, 3u);
  EXPECT_EQ(arms_exit_status(bad.report, std::nullopt), 5);
}

TEST(BenchArms, ResumeAddsNothingTwice) {
  const Speed speed = [](const std::string& arm, size_t round) {
    return 100 * noise(round) * (arm == "new" ? 1.1 : 1);
  };
  const Experiment whole = run(8, speed);
  // Cut in the middle of round 3: one arm of it is there.
  std::vector<OrderedJson> earlier(whole.report.rows.begin(), whole.report.rows.begin() + 10);
  const Experiment rest = run(8, speed, earlier);
  EXPECT_EQ(rest.order.size(), 14u);
  EXPECT_EQ(rest.report.rows.size(), whole.report.rows.size());
  EXPECT_EQ(rest.report.n_rounds, 8u);
  EXPECT_EQ(rest.report.figures[0].ratio.median, whole.report.figures[0].ratio.median);
  earlier[1]["flags"] = "-t 3";
  earlier[1]["arm"] = "new";
  EXPECT_THAT(error_of([&] { run(8, speed, earlier); }), HasSubstr("had the flags '-t 3'"));
}

TEST(BenchArms, OneArmAloneMeasuresTheNoise) {
  ArmsRun r;
  r.arms = parse_arms({"base="}, false);
  r.n_rounds = 6;
  r.measure = [](const BenchArm& arm, size_t round) {
    return std::vector<OrderedJson>{row_of(100 * noise(round + (arm.name == "base" ? 0 : 3)))};
  };
  const ArmsReport report = run_arms(r);
  ASSERT_EQ(report.figures.size(), 1u);
  EXPECT_EQ(report.figures[0].arm, "base-null");
  EXPECT_EQ(report.figures[0].verdict, ArmVerdict::Unresolved);
}

TEST(BenchArms, APassOfTwoRatesHasTwoMetrics) {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "m"}, {.n_prompt = 8, .n_gen = 4, .joint = true});
  row["median_ts"] = 50;
  row["pp_ts"] = {{"median", 80}};
  row["tg_ts"] = {{"median", 20}};
  EXPECT_EQ(arm_metrics({row}), (std::map<std::string, double>{{"pp8+tg4: prompt", 80}, {"pp8+tg4: answer", 20}}));
}

}  // namespace
}  // namespace loft
