// Measuring processes that are small shell scripts: what becomes of rows, crashes, hangs and wrong arguments.
#include "measure/bench_parent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/file_map.h"
#include "measure/bench_child.h"
#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::ElementsAre;

const std::vector<BenchTest> kTests = {{.n_prompt = 1}, {.n_prompt = 2}, {.n_prompt = 3}};

struct Outcome {
  int status = 0;
  std::vector<std::string> words;  // test and status of each row
  std::vector<size_t> skips;       // of each process
};
/// `script` runs with the row of test i in $ROWS/i and the number to skip as $1.
Outcome run_script(const std::string& script, double timeout = 20) {
  TempFolder temp;
  for (size_t i = 0; i < kTests.size(); ++i) {
    OrderedJson row = empty_bench_row();
    put_plan(row, {.model = "m"}, kTests[i]);
    row["status"] = "ok";
    write_text_file(temp / std::to_string(i), dump_json(row) + "\n");
  }
  Outcome out;
  std::vector<OrderedJson> rows;
  ChildRun run;
  run.timeout_seconds = timeout;
  run.command = [&](const BenchGroup&, size_t n_skip) {
    out.skips.push_back(n_skip);
    return std::vector<std::string>{"/bin/sh", "-c", "cd " + (temp / ".").string() + "; " + script, "sh",
                                    std::to_string(n_skip)};
  };
  run.on_row = [&](const OrderedJson& row) {
    rows.push_back(row);
    out.words.push_back(row_text(row, "test") + " " + row_text(row, "status"));
  };
  out.status = run_group_in_child({.model = "m"}, kTests, run);
  if (out.status == 0) out.status = bench_exit_status(rows);
  return out;
}

TEST(BenchParent, RowsComeAsTheyAreWritten) {
  const Outcome o = run_script("cat 0 1 2");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.words, ElementsAre("pp1 ok", "pp2 ok", "pp3 ok"));
  EXPECT_THAT(o.skips, ElementsAre(0));
}

// Mutant: bench_no_second_process (one row).
TEST(BenchParent, ACrashCostsTheRunningRowOnly) {
  const Outcome o = run_script("[ $1 = 0 ] && cat 0 && kill -SEGV $$; cat 2");
  EXPECT_EQ(o.status, 5);
  EXPECT_THAT(o.words, ElementsAre("pp1 ok", "pp2 FAIL:bench", "pp3 ok"));
  EXPECT_THAT(o.skips, ElementsAre(0, 2));
}

TEST(BenchParent, KilledMeansOutOfMemory) {
  EXPECT_THAT(run_script("cat 0 1; kill -KILL $$").words, ElementsAre("pp1 ok", "pp2 ok", "pp3 SKIP:oom"));
  const Outcome o = run_script("[ $1 = 0 ] && exit 4; tail -n +1 -q 1 2");
  EXPECT_EQ(o.status, 4);
  EXPECT_THAT(o.words, ElementsAre("pp1 SKIP:oom", "pp2 ok", "pp3 ok"));
}

// Mutant: bench_limit_longer.
TEST(BenchParent, AHangIsATimeoutAndTheRestIsMeasured) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = run_script("[ $1 = 0 ] && cat 0 && exec sleep 30; cat 2", 0.5);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 20);
  EXPECT_EQ(o.status, 5);
  EXPECT_THAT(o.words, ElementsAre("pp1 ok", "pp2 FAIL:timeout", "pp3 ok"));
}

TEST(BenchParent, SilenceAndWrongArguments) {
  EXPECT_THAT(run_script("[ $1 = 0 ] && exit 0; cat 1 2").words, ElementsAre("pp1 FAIL:no_output", "pp2 ok", "pp3 ok"));
  for (const int status : {2, 3}) {
    const Outcome o = run_script("exit " + std::to_string(status));
    EXPECT_EQ(o.status, status);
    EXPECT_TRUE(o.words.empty());
    EXPECT_THAT(o.skips, ElementsAre(0));
  }
}

TEST(BenchParent, TheWorstStatusDecides) {
  const auto status = [](std::vector<std::string> words) {
    std::vector<OrderedJson> rows;
    for (const std::string& w : words) {
      rows.push_back(empty_bench_row());
      rows.back()["status"] = w;
    }
    return bench_exit_status(rows);
  };
  EXPECT_EQ(status({"ok", "ok"}), 0);
  EXPECT_EQ(status({"SKIP:oom", "CONTENDED", "ok"}), 4);
  EXPECT_EQ(status({"CONTENDED", "ok"}), 75);
  EXPECT_EQ(status({"SKIP:oom", "FAIL:timeout", "ok"}), 5);
}

TEST(BenchParent, AProcessIsToldWhenItsTurnIsAndDiesWithItsOwner) {
  std::string line;
  {
    Child child({"/bin/sh", "-c", "read word; echo got $word; read word"});
    child.send("go\n");
    ASSERT_EQ(child.read_line(line, 20), Child::Read::Line);
    EXPECT_EQ(line, "got go");
    EXPECT_EQ(child.read_line(line, 20, [] { return true; }), Child::Read::Stopped);
    EXPECT_EQ(child.read_line(line, 0.05), Child::Read::Timeout);
  }
  Child gone({"/nowhere/no-such-program"});
  EXPECT_EQ(gone.read_line(line, 20), Child::Read::End);
  gone.send("go\n");
  EXPECT_EQ(gone.wait(), 127);
}

}  // namespace
}  // namespace loft
