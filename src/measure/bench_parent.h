// measure: the side that asks: runs the tests of a plan in processes of their own, and turns what happens to those into
// statuses. What enters: command lines. What leaves: a row for every test.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"
#include "measure/bench_plan.h"

namespace loft {

struct ChildRun {
  /// The command line that measures the tests of a group from number n_skip on, one row a line of stdout; with
  /// guard_record that one test only, under the guard.
  std::function<std::vector<std::string>(const BenchGroup& group, size_t n_skip)> command;
  /// The summary of the record of the guard that ended last; null where there is none.
  std::function<OrderedJson()> guard_record = {};
  /// A row that a disturbed attempt gave; attempt counts from 1.
  std::function<void(const OrderedJson& row, size_t attempt)> on_rejected = {};
  std::string error_file = {};      // appended to by stderr of the processes; "": ours
  double timeout_seconds = 300;     // for each row
  std::function<bool()> stop = {};  // true: end now
  std::function<void(const OrderedJson&)> on_row;
};

/// What the group's process did: 0, or the status of a process that measured nothing because of its arguments (2) or
/// its checkpoint (3).
int run_group_in_child(const BenchGroup& group, const std::vector<BenchTest>& tests, const ChildRun& run);

/// The status word of a test during which a process ended with `status`.
const char* status_of_exit(int status);

/// Exit status of a bench over these rows, first that holds: 5 any FAIL, 4 any SKIP, 75 any CONTENDED, 0.
int bench_exit_status(const std::vector<OrderedJson>& rows);

}  // namespace loft
