// apps: loft bench over files that are there: --compare, --plot.
#include <nlohmann/json.hpp>

#include "apps/bench_apps.h"
#include "apps/output.h"
#include "core/error.h"
#include "core/file_map.h"
#include "measure/bench_arms.h"
#include "measure/bench_compare.h"
#include "measure/bench_plot.h"
#include "measure/bench_row.h"

namespace loft {

int run_bench_compare(const ParsedArgs& args) {
  const Options& o = args.options;
  if (args.positionals.size() != 2)
    fail(Code::BadRequest, "--compare: found {} files, wanted two, OLD and NEW", args.positionals.size());
  std::optional<double> gate;
  if (o.gate) gate = parse_gate(*o.gate);
  const std::vector<OrderedJson> old_rows = read_bench_rows(args.positionals[0]);
  const std::vector<OrderedJson> new_rows = read_bench_rows(args.positionals[1]);
  const BenchComparison c = compare_benches(old_rows, new_rows, o.allow_commit_change);
  const std::string json = dump_json(bench_comparison_json(c), 1) + "\n";
  if (o.json_file) write_text_file(*o.json_file, json);
  write_data(o.json || o.output == "json" ? json : bench_comparison_text(c));
  return bench_comparison_status(c, gate);
}

void write_plots(const Options& o, std::span<const OrderedJson> rows) {
  if (!o.plot && !o.dat) return;
  const Plot plot = plot_rows(rows, o.x, o.y, o.log_axes);
  if (o.plot) write_text_file(*o.plot, svg_text(plot));
  if (o.dat) write_text_file(*o.dat, dat_text(plot));
}

int run_bench_plot(const ParsedArgs& args) {
  std::vector<OrderedJson> rows;
  for (const std::string& file : args.positionals) {
    for (OrderedJson& row : read_bench_rows(file)) rows.push_back(std::move(row));
  }
  write_plots(args.options, rows);
  return 0;
}

}  // namespace loft
