#include "measure/bench_parent.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "measure/bench_child.h"
#include "measure/bench_guard.h"
#include "measure/bench_row.h"

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
  constexpr int kKilled = 128 + 9;    // what the kernel does to a process when memory runs out
  constexpr int kAlarmed = 128 + 14;  // its own limit, --bench-limit
  if (status == kAlarmed) return "FAIL:timeout";
  if (status == kKilled || status == exit_status(Code::OutOfMemory)) return "SKIP:oom";
  return status == 0 ? "FAIL:no_output" : "FAIL:bench";
}

namespace {

/// Arguments and files that are wrong stay wrong: no second process, no row that looks like a measurement.
std::optional<int> hopeless(int status) {
  if (status == 127) return 3;
  return status == 2 || status == 3 ? std::optional(status) : std::nullopt;
}

/// One test under the guard. Each attempt gives its row; the last one counts when the guard says that it was clean.
int run_guarded_test(const BenchGroup& group, const std::vector<BenchTest>& tests, size_t n, const ChildRun& run) {
  Child child(run.command(group, n), run.error_file);
  constexpr double kPatienceSeconds = 15, kForever = 1e9;  // the guard bounds its own waits, the test's process itself
  std::vector<OrderedJson> rows;
  std::string line;
  auto read = Child::Read::End;
  while ((read = child.read_line(line, kForever, run.stop)) == Child::Read::Line) {
    rows.push_back(parse_ordered_json(line, "the measuring process"));
  }
  if (read == Child::Read::Stopped) {
    child.end(kPatienceSeconds);
    return 0;
  }
  const int status = child.wait();
  const OrderedJson guard = run.guard_record();
  const bool contended = is_contended(guard, status);
  const size_t n_rejected = rows.size() - (contended || rows.empty() ? 0 : 1);
  for (size_t i = 0; i < n_rejected; ++i) {
    if (run.on_rejected) run.on_rejected(rows[i], i + 1);
  }
  OrderedJson row;
  if (contended) {
    row = failed_row(group, tests[n], "CONTENDED", contended_text(guard));
  } else if (!rows.empty()) {
    row = rows.back();
  } else {
    if (const auto end = hopeless(status); end && n == 0) return *end;
    row = failed_row(group, tests[n], status_of_exit(status), fmt::format("the process ended with {}", status));
  }
  row["guard"] = guard;
  run.on_row(row);
  return 0;
}

}  // namespace

int run_group_in_child(const BenchGroup& group, const std::vector<BenchTest>& tests, const ChildRun& run) {
  if (run.guard_record) {
    int status = 0;
    for (size_t n = 0; n < tests.size() && status == 0 && !(run.stop && run.stop()); ++n)
      status = run_guarded_test(group, tests, n, run);
    return status;
  }
  size_t n_done = 0;
  const auto give = [&](const OrderedJson& row) {
    ++n_done;
    run.on_row(row);
  };
  while (n_done < tests.size()) {
    Child child(run.command(group, n_done), run.error_file);
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
    if (const auto end = hopeless(status); end && n_done == 0 && n_before == 0) return *end;
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
