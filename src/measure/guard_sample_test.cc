#include "measure/guard_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kGuard = 10;

ProcessTable small_table() {
  ProcessTable table;
  const auto add = [&](int pid, int parent, const char* name, char state = 'S') {
    table[pid] = {.pid = pid, .parent = parent, .state = state, .name = name, .ticks = 0};
  };
  add(1, 0, "init"), add(kGuard, 1, "loft"), add(11, kGuard, "run"), add(20, 1, "other"), add(21, 1, "ended", 'Z');
  return table;
}

GpuUsers users(std::vector<int> pids, std::vector<int> recent = {}, std::set<int> seen = {}) {
  const GpuPoll poll{
      .pids = std::move(pids), .recent_pids = std::move(recent), .use_percent = {}, .throttle = {}, .fault = {}};
  return users_by_pid(poll, small_table(), kGuard, seen);
}

// Seen to fail: the kin is not looked at, so every holder is foreign.
TEST(GuardSample, OwnProcessesHoldTheGpuWithoutBeingForeign) {
  EXPECT_THAT(users({11}).all, ElementsAre("11:run"));
  EXPECT_THAT(users({11}).foreign, IsEmpty());
  EXPECT_THAT(users({1, 11, 20}).foreign, ElementsAre("1:init", "20:other"));
  EXPECT_THAT(users({-1}).foreign, ElementsAre("hidden"));
}

// Mutant: guard_lingering.
TEST(GuardSample, AnEntryWithoutALivingProcessIsLeftOut) {
  EXPECT_THAT(users({99, 21}).all, IsEmpty());
}

TEST(GuardSample, AProcessThatUsedTheGpuBetweenTwoLooksIsForeignUnlessItWasOurs) {
  EXPECT_THAT(users({}, {99}).foreign, ElementsAre("99:ended"));
  EXPECT_THAT(users({}, {99}, {99}).foreign, IsEmpty());
  EXPECT_THAT(users({}, {11}).foreign, IsEmpty());
  EXPECT_THAT(users({20}, {20}).foreign, ElementsAre("20:other"));
}

TEST(GuardSample, UnderTheNestedRuleOnlyNumbersCount) {
  const GpuPoll two{.pids = {777, 778, 778}, .recent_pids = {}, .use_percent = {}, .throttle = {}, .fault = {}};
  EXPECT_THAT(users_by_count(two, 2).foreign, IsEmpty());
  EXPECT_THAT(users_by_count(two, 1).foreign, ElementsAre("1 of 2 processes"));
  EXPECT_EQ(users_by_count(two, 1).all.size(), 1u);
  EXPECT_THAT(users_by_count({}, 1).all, IsEmpty());
}

TEST(GuardSample, BeforeAStartEveryHolderCountsDuringARunOnlyForeignOnes) {
  Reading own;
  own.gpu.all = {"11:run"};
  EXPECT_FALSE(judge(own, {}, Phase::Before).is_clean);
  EXPECT_TRUE(judge(own, {}, Phase::During).is_clean);
  own.gpu.foreign = {"20:other"};
  const Judgement j = judge(own, {}, Phase::During);
  EXPECT_FALSE(j.is_clean);
  EXPECT_EQ(j.text("foreign_gpu"), "foreign_gpu=[20:other] compilers=[] cpu=[]");
}

TEST(GuardSample, UseOfAGpuWithoutAProcessCountsBeforeAStart) {
  Reading reading;
  reading.use_percent = 35;
  EXPECT_THAT(judge(reading, {}, Phase::Before).gpu, ElementsAre("use 35%"));
  EXPECT_TRUE(judge(reading, {}, Phase::During).is_clean);
}

TEST(GuardSample, OwnCompilersCountUnlessAllowed) {
  Reading reading;
  reading.own_compilers = {"12:cc1plus"};
  EXPECT_FALSE(judge(reading, {}, Phase::During).is_clean);
  EXPECT_TRUE(judge(reading, {.allow_own_compilers = true}, Phase::During).is_clean);
  reading.compilers = {"30:ld"};
  EXPECT_THAT(judge(reading, {.allow_own_compilers = true}, Phase::During).compilers, ElementsAre("30:ld"));
}

// Seen to fail: faults are not appended, so a source that fails reads as idle.
TEST(GuardSample, WhatCannotBeSeenIsNotIdle) {
  Reading reading;
  reading.faults = {"nvidia-smi: exit status 1"};
  EXPECT_FALSE(judge(reading, {}, Phase::Before).is_clean);
  EXPECT_EQ(judge(reading, {}, Phase::During).text("gpu"),
            "gpu=[] compilers=[] cpu=[] other=[nvidia-smi: exit status 1]");
  EXPECT_TRUE(judge({}, {}, Phase::Before).is_clean);
  EXPECT_FALSE(judge({}, {.judge_cpu = true}, Phase::Before).is_clean);  // no load known yet
  EXPECT_TRUE(judge({}, {.judge_cpu = true}, Phase::During).is_clean);
}

TEST(GuardSample, LoadStealAndPressureHaveTheirLimits) {
  const GuardRules rules{.judge_cpu = true};
  Reading reading;
  reading.cpu = CpuLoad{.foreign_cores = 0.25, .steal_percent = 5, .seconds = 5};
  reading.pressure = 10;
  EXPECT_TRUE(judge(reading, rules, Phase::Before).is_clean);
  reading.cpu->foreign_cores = 0.26;
  EXPECT_THAT(judge(reading, rules, Phase::During).cpu, ElementsAre("foreign 0.26 cores"));
  EXPECT_TRUE(judge(reading, {}, Phase::During).is_clean);
  reading.cpu = CpuLoad{.foreign_cores = 0, .steal_percent = 5.1, .seconds = 5};
  EXPECT_THAT(judge(reading, rules, Phase::During).cpu, ElementsAre("steal 5.1%"));
  reading.cpu->steal_percent = 0;
  reading.pressure = 10.1;
  EXPECT_FALSE(judge(reading, rules, Phase::Before).is_clean);
  EXPECT_TRUE(judge(reading, rules, Phase::During).is_clean);  // the command itself makes pressure
}

TEST(GuardSample, ThrottlingCountsOnlyWhenAskedAndOnlyDuringARun) {
  Reading reading;
  reading.throttle = {"gpu0:hw_thermal"};
  EXPECT_TRUE(judge(reading, {}, Phase::During).is_clean);
  EXPECT_FALSE(judge(reading, {.reject_throttle = true}, Phase::During).is_clean);
  EXPECT_TRUE(judge(reading, {.reject_throttle = true}, Phase::Before).is_clean);
}

// Seen to fail: a busy sample does not reset since_.
TEST(GuardSample, ABusySampleBeginsTheIdleStreakAnew) {
  IdleStreak streak(3);
  EXPECT_FALSE(streak.add(0, false));  // no streak yet, so none ends
  EXPECT_FALSE(streak.add(1, true));
  EXPECT_FALSE(streak.add(3, true));
  EXPECT_FALSE(streak.is_done());
  EXPECT_EQ(streak.left(3), 1);
  EXPECT_EQ(streak.add(3.5, false), 2.5);
  EXPECT_EQ(streak.left(3.5), 3);
  streak.add(4, true);
  EXPECT_FALSE(streak.is_done());
  streak.add(7, true);
  EXPECT_TRUE(streak.is_done());
  IdleStreak none(0);
  none.add(5, true);
  EXPECT_TRUE(none.is_done());
}

// Samples one second apart on a machine of 2 processors and 100 ticks a second.
std::optional<CpuLoad> load_after(int n_points, double foreign_cores, double own_cores, double steal_cores,
                                  bool may_be_short = false) {
  CpuWindow window(100);
  for (int i = 0; i < n_points; ++i) {
    const auto ticks = [&](double cores) { return uint64_t(std::lround(1000 + cores * 100 * i)); };
    CpuPoint point{.seconds = double(i), .times = {}, .own_ticks = ticks(own_cores)};
    point.times.busy = ticks(foreign_cores + own_cores);
    point.times.steal = ticks(steal_cores);
    point.times.total = 10000 + uint64_t(200 * i);
    window.add(point);
  }
  return window.load(may_be_short);
}

// Seen to fail: own ticks are not subtracted.
TEST(GuardSample, OnlyTheLoadOfOthersIsForeign) {
  const auto quiet = load_after(6, 0, 1.5, 0);
  ASSERT_TRUE(quiet);
  EXPECT_NEAR(quiet->foreign_cores, 0, 1e-9);
  EXPECT_NEAR(load_after(6, 1, 0.5, 0)->foreign_cores, 1, 1e-9);
  EXPECT_NEAR(load_after(6, 0, 0, 0.2)->steal_percent, 10, 1e-9);
  EXPECT_NEAR(load_after(6, 0, 0, 0.2)->foreign_cores, 0, 1e-9);
}

TEST(GuardSample, ALoadIsAMeanOfFiveIntervals) {
  EXPECT_FALSE(load_after(5, 1, 0, 0));
  EXPECT_EQ(load_after(6, 1, 0, 0)->seconds, 5);
  EXPECT_EQ(load_after(9, 1, 0, 0)->seconds, 5);
  EXPECT_EQ(load_after(3, 1, 0, 0, true)->seconds, 2);  // a command that ended early
  EXPECT_FALSE(load_after(1, 1, 0, 0, true));
  CpuWindow blink(100);  // 0.05 s are 5 ticks, each of them uncertain
  blink.add({.seconds = 0, .times = {.busy = 0, .steal = 0, .total = 1}, .own_ticks = 0});
  blink.add({.seconds = 0.05, .times = {.busy = 5, .steal = 0, .total = 11}, .own_ticks = 0});
  EXPECT_FALSE(blink.load(true));
}

TEST(GuardSample, OwnTimeThatVanishesDoesNotGoBelowZero) {
  CpuWindow window(100);
  for (int i = 0; i < 6; ++i) {
    window.add({.seconds = double(i),
                .times = {.busy = uint64_t(i), .steal = 0, .total = uint64_t(200 * i)},
                .own_ticks = uint64_t(100 - i)});
  }
  EXPECT_NEAR(window.load(false)->foreign_cores, 0.01, 1e-9);
}

}  // namespace
}  // namespace loft
