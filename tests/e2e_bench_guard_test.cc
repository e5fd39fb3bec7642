// loft bench --guard: tests and rounds under the guard, on a folder that stands for the kernel's list of GPU processes.
#include <gmock/gmock.h>

#include "measure/bench_row.h"
#include "tests/guard_fixture.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;

class BenchGuardTest : public GuardTest {
 protected:
  BenchGuardTest() { synth_checkpoint(tiny_request(tiny_llama()), path("m")); }
  program::Outcome bench(std::vector<std::string> args, program::Input input = {}) {
    std::vector<std::string> all = {"bench", path("m").string(), "--ceiling", "off",  "-n",          "0", "-r",
                                    "1",     "--guard",          "--for",     "rocm", "--idle-secs", "0", "--sample-ms",
                                    "20",    "--max-wait",       "20"};
    all.insert(all.end(), args.begin(), args.end());
    const std::vector<std::string> machine = environment();
    input.environment.insert(input.environment.begin(), machine.begin(), machine.end());
    return program::run(LOFT_BINARY, all, input);
  }
  /// Somebody else on the GPU as soon as stderr says `from`, gone when it says `to`.
  program::Input disturbance(const std::string& from, const std::string& to) {
    program::Input input;
    input.on_error_output = [=, this](pid_t, const std::string& text) {
      const bool is_gone = !to.empty() && text.find(to) != std::string::npos;
      if (is_gone) std::filesystem::remove(path("kfd") / "1");
      if (!is_gone && text.find(from) != std::string::npos) write("kfd/1", "");
    };
    return input;
  }
};

TEST_F(BenchGuardTest, EachTestIsAnAttemptOfItsOwn) {
  const program::Outcome o = bench({"-p", "4,8", "-o", "json"});
  EXPECT_EQ(o.status, 0) << o.err;
  write("rows.json", o.out);
  const std::vector<OrderedJson> rows = read_bench_rows(path("rows.json"));
  ASSERT_EQ(rows.size(), 2u);
  for (const OrderedJson& row : rows) {
    EXPECT_EQ(row["status"], "ok");
    EXPECT_EQ(row["guard"]["verdict"], "clean");
    EXPECT_EQ(row["guard"]["attempts"], 1);
    EXPECT_GE(row["guard"]["samples"], 2);
    EXPECT_EQ(row["guard"]["record_sha256"].get<std::string>().size(), 64u);
  }
}

// Mutant: bench_guard_first_row.
TEST_F(BenchGuardTest, ADisturbedAttemptIsMeasuredAgain) {
  const std::string file = path("r.json").string();
  const program::Outcome o =
      bench({"-p", "400", "-r", "60", "--json-file", file}, disturbance("attempt 1/5: start", "REJECTED"));
  EXPECT_EQ(o.status, 0) << o.err;
  const std::vector<OrderedJson> rows = read_bench_rows(file), rejected = read_bench_rows(file + ".rejected-1");
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rows[0]["guard"]["rejected"], 1);
  EXPECT_EQ(rows[0]["guard"]["attempts"], 2);
  EXPECT_NE(rows[0]["samples_ns"], rejected[0]["samples_ns"]);
}

TEST_F(BenchGuardTest, WithoutACleanAttemptTheRowIsContended) {
  const program::Outcome o =
      bench({"-p", "400", "-r", "60", "--max-attempts", "1", "-o", "jsonl"}, disturbance("attempt 1/1: start", ""));
  EXPECT_EQ(o.status, 75) << o.err;
  const OrderedJson row = parse_ordered_json(o.out, "stdout");
  EXPECT_EQ(row["status"], "CONTENDED");
  EXPECT_TRUE(row["median_ts"].is_null());
  EXPECT_EQ(row["guard"]["verdict"], "contended");
  EXPECT_THAT(row["guard"]["reasons"].dump(), HasSubstr("1:"));
}

TEST_F(BenchGuardTest, ARoundThatIsDisturbedIsDropped) {
  const std::string file = path("r.jsonl").string();
  const program::Outcome o = bench(
      {"-p", "400", "-r", "60", "--max-attempts", "1", "--no-warmup", "--rounds", "1", "--arm", "a=", "--out", file},
      disturbance("attempt 1/1: start", "REJECTED"));
  EXPECT_EQ(o.status, 75) << o.err;
  EXPECT_THAT(o.out, HasSubstr("0 rounds counted, 1 dropped"));
  const std::vector<OrderedJson> rows = read_bench_rows(file);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["status"], "CONTENDED");
  EXPECT_EQ(rows[1]["status"], "ok");
}

}  // namespace
}  // namespace loft
