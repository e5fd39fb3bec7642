// apps: what the files of loft bench share.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/options.h"
#include "measure/bench_plan.h"

namespace loft {

/// The path of this program. Error: Device when the system does not say.
std::string own_program();

/// The command line of a process that measures one group from test n_skip on.
std::vector<std::string> group_command(const ParsedArgs& args, const BenchGroup& group, size_t n_skip);

/// The models asked for; "all" stands for every checkpoint of --models-dir. Errors: BadRequest, NotFound.
std::vector<std::string> models_of(const ParsedArgs& args);

/// The files of --out-dir. Errors: BadRequest when they exist, before anything is measured.
class SweepFiles {
 public:
  SweepFiles(const Options& options, const std::vector<std::string>& models);
  /// All rows so far, each time whole.
  void write(std::span<const OrderedJson> rows) const;

 private:
  std::string base_;  // without .json and .csv; "": no files
};

/// With --raw-dir: where the processes of the n-th group write what they say; else "".
std::string log_file(const Options& options, const BenchGroup& group, size_t n);

/// An option of loft guard that --guard hands on.
bool is_guard_option(const OptionRow& row);
/// Error: BadRequest for options of the guard without --guard, and for what cannot be guarded.
void check_guard(const ParsedArgs& args);

/// Command lines under the guard, and what it recorded. `args` must outlive it.
class BenchGuard {
 public:
  explicit BenchGuard(const ParsedArgs& args);
  BenchGuard(const BenchGuard&) = delete;
  BenchGuard& operator=(const BenchGuard&) = delete;
  ~BenchGuard();
  /// `command` under the guard; only_clean: without the rows of disturbed attempts.
  std::vector<std::string> around(const std::vector<std::string>& command, bool only_clean);
  /// Of the command line that `around` gave last; null when its guard recorded nothing.
  OrderedJson summary() const;

 private:
  const ParsedArgs& args_;
  std::filesystem::path folder_, record_;
  bool is_temporary_ = false;
  size_t n_ = 0;
};

/// --scrub, --label: what a row shows of paths and of its model.
void put_shown_names(OrderedJson& row, const Options& options);

/// --arm: the experiment, its report, its exit status.
int run_bench_arms(const ParsedArgs& args, const std::vector<std::string>& models);

/// --compare OLD NEW.
int run_bench_compare(const ParsedArgs& args);

/// --plot, --dat over result files.
int run_bench_plot(const ParsedArgs& args);
/// Writes what --plot and --dat ask for; nothing where they do not. Errors: those of plot_rows.
void write_plots(const Options& options, std::span<const OrderedJson> rows);

/// loft bench qmm.
int run_bench_qmm(const ParsedArgs& args);

}  // namespace loft
