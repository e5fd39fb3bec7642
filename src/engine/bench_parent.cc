#include "engine/bench_parent.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine/bench_child.h"
#include "engine/bench_row.h"

namespace loft {
namespace {

OrderedJson failed_row(const BenchGroup& group, const BenchTest& test, const char* status, const std::string& why) {
  OrderedJson row = empty_bench_row();
  put_plan(row, group, test);
  row["status"] = status;
  row["error"] = why;
  return row;
}

}  // namespace

const char* status_of_exit(int status) {
  constexpr int kKilled = 128 + 9;  // what the kernel does to a process when memory runs out
  if (status == kKilled || status == exit_status(Code::OutOfMemory)) return "SKIP:oom";
  return status == 0 ? "FAIL:no_output" : "FAIL:bench";
}

int run_group_in_child(const BenchGroup& group, const std::vector<BenchTest>& tests, const ChildRun& run) {
  size_t n_done = 0;
  const auto give = [&](const OrderedJson& row) {
    ++n_done;
    run.on_row(row);
  };
  while (n_done < tests.size()) {
    Child child(run.command(group, n_done));
    const size_t n_before = n_done;
    std::string line;
    auto read = Child::Read::End;
    while (n_done < tests.size() &&
           (read = child.read_line(line, run.timeout_seconds, run.stop)) == Child::Read::Line) {
      give(parse_ordered_json(line, "the measuring process"));
    }
    if (read == Child::Read::Stopped) return 0;
    if (n_done == tests.size()) break;
    if (read == Child::Read::Timeout) {
      child.kill();
      give(failed_row(group, tests[n_done], "FAIL:timeout", fmt::format("no row after {} s", run.timeout_seconds)));
      continue;
    }
    const int status = child.wait();
    // Arguments and files that are wrong stay wrong: no second process, no row that looks like a measurement.
    if (n_done == 0 && n_before == 0 && (status == 2 || status == 3 || status == 127))
      return status == 127 ? 3 : status;
    give(failed_row(group, tests[n_done], status_of_exit(status), fmt::format("the process ended with {}", status)));
  }
  return 0;
}

int bench_exit_status(const std::vector<OrderedJson>& rows) {
  int status = 0;
  const auto rank = [](int s) { return s == 5 ? 3 : s == 4 ? 2 : s == 75 ? 1 : 0; };
  for (const OrderedJson& row : rows) {
    const std::string word = row_text(row, "status");
    const int now = word.starts_with("FAIL") ? 5 : word.starts_with("SKIP") ? 4 : word == "CONTENDED" ? 75 : 0;
    if (rank(now) > rank(status)) status = now;
  }
  return status;
}

}  // namespace loft
