// apps: loft compare REFERENCE CANDIDATE.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "core/error.h"
#include "core/file_map.h"
#include "measure/compare_traces.h"

namespace loft {

int run_compare(const ParsedArgs& args) {
  const Options& o = args.options;
  const TraceFile reference = read_trace_file(args.positionals[0]);
  const TraceFile candidate = read_trace_file(args.positionals[1]);
  const Comparison c = compare_traces(reference, candidate, {.decided_gap = o.decided, .n_worst = int64_t(o.list)});
  const std::string json = dump_json(comparison_json(c, reference, candidate)) + "\n";
  if (o.json_file) write_text_file(*o.json_file, json);
  fmt::print("{}", o.json ? json : comparison_text(c));
  if (o.strict && !c.warnings.empty()) fail(Code::BadRequest, "--strict: {}", c.warnings[0]);
  return compare_exit_status(c, o.fail_on);
}

}  // namespace loft
