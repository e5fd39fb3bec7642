// apps: what the files of loft bench share.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/options.h"
#include "engine/bench_plan.h"

namespace loft {

/// The path of this program. Error: Device when the system does not say.
std::string own_program();

/// The command line of a process that measures one group from test n_skip on.
std::vector<std::string> group_command(const ParsedArgs& args, const BenchGroup& group, size_t n_skip);

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
