// apps: loft bench qmm: one quantized product by itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/bench_apps.h"
#include "apps/build_info.h"
#include "apps/output.h"
#include "apps/signals.h"
#include "core/error.h"
#include "core/file_map.h"
#include "engine/open_engine.h"
#include "measure/bench_formats.h"
#include "measure/bench_parent.h"
#include "measure/bench_qmm.h"
#include "measure/host_info.h"
#include "measure/stream_ceiling.h"

namespace loft {

int run_bench_qmm(const ParsedArgs& args) {
  Options o = args.options;
  for (const char* name :
       {"n_prompt", "n_gen",         "prompt_gen",    "n_depth",    "n_batch",     "n_parallel", "opt",
        "arm",      "model",         "warmup_tokens", "prompt_ids", "prompt_file", "legacy_csv", "kernels",
        "last",     "bench_out_dir", "suffix",        "cooldown",   "raw_dir",     "label",      "scrub"}) {
    if (args.has(name)) fail(Code::BadRequest, "loft bench qmm: {} is about models", name);
  }
  if (o.guard) fail(Code::BadRequest, "--guard: products are guarded as a whole: loft guard -- loft bench qmm ..");
  if (!o.n_threads.empty()) {
    uint64_t threads = 0;
    if (o.n_threads.size() != 1 || !parse_whole(o.n_threads[0], 1, 4096, threads))
      fail(Code::BadRequest, "--n-threads: found '{}', wanted one number for qmm", o.n_threads[0]);
    o.threads = threads;
  }
  const BenchFormat format = o.json ? BenchFormat::JsonObject : *bench_format_from_name(o.output);
  if (format == BenchFormat::Profile || format == BenchFormat::Sql)
    fail(Code::BadRequest, "--output {}: products are printed as md, csv, json or jsonl", o.output);
  const std::vector<QmmBenchCase> cases = plan_qmm_bench(o, o.route.value_or(o.fit_routes ? "all" : ""));
  const ReadText read = read_text_of_system();
  const OrderedJson base = {{"version", build_json()["version"]},
                            {"build", build_json()},
                            {"host", host_json(read)},
                            {"cpu_info", cpu_name(read)}};
  const DeviceInfo device = backend_from_options(o)->device();
  const CeilingChoice choice = parse_ceiling(o.ceiling);
  double ceiling = choice.nominal_gbps;
  if (choice.is_measured)
    ceiling =
        streaming_read_gbps(device.n_threads, ceiling_buffer_bytes(size_t(std::max(device.l2_bytes, device.l3_bytes))));
  catch_signals();
  std::vector<OrderedJson> rows;
  ProgressLine progress(o.quiet);
  run_qmm_bench(cases,
                {.options = o,
                 .repeats = int64_t(o.repetitions.value_or(5)),
                 .is_warm = o.warm,
                 .ceiling_gbps = ceiling,
                 .base = base,
                 .stop = [] { return pending_signal() != 0; }},
                [&](const OrderedJson& row) {
                  if (format == BenchFormat::JsonLines) write_data(dump_json(row) + "\n");
                  rows.push_back(row);
                  progress.update("bench", rows.size(), cases.size());
                });
  progress.clear();
  const OrderedJson all = {{"schema", "loft.bench.qmm/1"}, {"results", rows}};
  if (o.json_file) write_text_file(*o.json_file, dump_json(all, 1) + "\n");
  if (o.fit_routes) {
    const std::string flags =
        fmt::format("{}", fmt::join(given_flags(args, [](const OptionRow&) { return true; }), " "));
    write_data(fit_routes_text(rows, "loft bench qmm " + flags));
  } else if (format == BenchFormat::JsonObject) {
    write_data(dump_json(all, 1) + "\n");
  } else if (format == BenchFormat::Csv) {
    write_data(csv_text(rows, qmm_bench_keys()));
  } else if (format == BenchFormat::Md) {
    write_data(qmm_md_text(rows));
  }
  if (pending_signal() != 0) return signal_exit_status(pending_signal());
  write_plots(o, rows);
  return bench_exit_status(rows);
}

}  // namespace loft
