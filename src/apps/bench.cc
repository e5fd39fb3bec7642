// apps: loft bench. Options enter; this process plans, asks processes of its own to measure, and prints what they say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/apps.h"
#include "apps/bench_apps.h"
#include "apps/build_info.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "apps/signals.h"
#include "core/error.h"
#include "core/file_map.h"
#include "engine/bench_formats.h"
#include "engine/bench_group.h"
#include "engine/bench_parent.h"
#include "engine/bench_row.h"

namespace loft {
namespace {

constexpr size_t kMaxPromptBytes = size_t(16) << 20;

int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

void print_mark(const char* phase) {
  fmt::print(stderr, "[phase] {} monotonic_ns={} boottime_ns={}\n", phase, clock_ns(CLOCK_MONOTONIC),
             clock_ns(CLOCK_BOOTTIME));
}

/// Engine options that are not at their default: name, value, where it came from.
OrderedJson options_json(const ParsedArgs& args) {
  OrderedJson out = OrderedJson::array();
  const auto rows = option_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_engine =
        (rows[i].where & kBench) != 0 && (rows[i].where & kRun) != 0 && (rows[i].where & kAll) != kAll;
    if (!is_engine || args.sources[i] == Source::Default || rows[i].flag == "--models-dir") continue;
    out.push_back({{"name", rows[i].flag.substr(2)},
                   {"value", rows[i].show(args.options)},
                   {"source", source_name(args.sources[i])}});
  }
  return out;
}

/// --bench-child: this process measures one group.
int measure_here(const ParsedArgs& args, const std::vector<std::string>& models) {
  const Options& o = args.options;
  const BenchPlan plan = plan_bench(o, models);
  if (plan.groups.size() != 1) fail(Code::BadRequest, "--bench-child measures one group, got {}", plan.groups.size());
  const std::vector<std::string> environment = process_environment();
  Options options = o;
  const BenchGroup& group = plan.groups[0];
  if (group.n_threads > 0) options.threads = uint64_t(group.n_threads);
  const OrderedJson build = build_json(), options_list = options_json(args);
  BenchGroupRun run{.folder = resolve_model(group.model, {.models_dir = o.models_dir, .environment = environment}),
                    .options = options,
                    .group = group,
                    .tests = plan.tests,
                    .n_skip = size_t(o.bench_skip),
                    .run = {.repeats = int64_t(o.repetitions.value_or(5)),
                            .has_warmup = !o.no_warmup,
                            .warmup_tokens = int64_t(std::min<uint64_t>(o.warmup_tokens, INT32_MAX))},
                    .build = build,
                    .options_json = options_list};
  if (o.prompt_file) run.prompt_text = read_text_file(*o.prompt_file, kMaxPromptBytes);
  if (o.bench_phase_marks) run.run.on_phase = print_mark;
  const auto on_row = [](const OrderedJson& row) { write_data(dump_json(row) + "\n"); };
  std::function<bool()> next_round;
  if (o.bench_rounds) {
    next_round = [] {
      write_data("{\"ready\": true}\n");
      std::string line;
      return bool(std::getline(std::cin, line));
    };
  }
  run_bench_group(run, on_row, next_round);
  return 0;
}

void check_options(const Options& o) {
  if (!o.ignore_eos) fail(Code::BadRequest, "--ignore-eos off: a benchmark never stops at an end of text");
  if (o.bin) fail(Code::BadRequest, "--bin belongs inside --arm NAME='--bin PATH'");
  if (o.arm.empty() && (o.resume || o.resident || o.null_every_arm || o.out))
    fail(Code::BadRequest, "--resume, --resident, --null-every-arm and --out belong to an experiment: give --arm");
  if (o.resume && !o.out) fail(Code::BadRequest, "--resume is given without --out, the file to go on with");
  if (o.json && o.output != "md" && o.output != "json")
    fail(Code::BadRequest, "--json and --output {} are both given, wanted one of them", o.output);
}

/// --plot or --dat over result files, not over what is measured now.
bool is_files(const ParsedArgs& args) {
  if ((!args.options.plot && !args.options.dat) || args.positionals.empty()) return false;
  return std::all_of(args.positionals.begin(), args.positionals.end(),
                     [](const std::string& name) { return name.ends_with(".json") || name.ends_with(".jsonl"); });
}

/// The models asked for; "all" stands for every checkpoint of --models-dir.
std::vector<std::string> models_of(const ParsedArgs& args) {
  std::vector<std::string> asked = args.positionals;
  asked.insert(asked.end(), args.options.model.begin(), args.options.model.end());
  std::vector<std::string> models;
  for (const std::string& name : asked) {
    if (name != "all") {
      models.push_back(name);
      continue;
    }
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(args.options.models_dir, error)) {
      if (std::filesystem::exists(entry.path() / "config.json")) found.push_back(entry.path().string());
    }
    if (found.empty()) fail(Code::NotFound, "{}: holds no folder with a config.json", args.options.models_dir);
    std::sort(found.begin(), found.end());
    models.insert(models.end(), found.begin(), found.end());
  }
  if (models.empty()) fail(Code::BadRequest, "MODEL is missing; see loft bench --help");
  return models;
}

int run_plan(const ParsedArgs& args, const std::vector<std::string>& models) {
  const Options& o = args.options;
  const BenchPlan plan = plan_bench(o, models);
  const std::string flags = fmt::format("{}", fmt::join(given_flags(args, [](const OptionRow&) { return true; }), " "));
  const BenchFormat format = o.json ? BenchFormat::JsonObject : *bench_format_from_name(o.output);
  std::vector<OrderedJson> rows;
  ProgressLine progress(o.quiet);
  ChildRun run;
  run.command = [&](const BenchGroup& group, size_t n_skip) { return group_command(args, group, n_skip); };
  run.timeout_seconds = o.timeout + o.delay;
  run.stop = [] { return pending_signal() != 0; };
  run.on_row = [&](OrderedJson row) {
    row["flags"] = flags;
    if (format == BenchFormat::JsonLines) write_data(dump_json(row) + "\n");
    rows.push_back(std::move(row));
    progress.update("bench", rows.size(), plan.groups.size() * plan.tests.size());
  };
  catch_signals();
  int status = 0;
  for (const BenchGroup& group : plan.groups) {
    progress.update(group.model, rows.size(), plan.groups.size() * plan.tests.size());
    const int now = run_group_in_child(group, plan.tests, run);
    if (now != 0) status = now;
    if (pending_signal() != 0) break;
  }
  progress.clear();
  if (rows.empty() && pending_signal() == 0) return status;
  if (format != BenchFormat::JsonLines) write_data(format_rows(format, rows));
  if (const auto second = bench_format_from_name(o.output_err)) fmt::print(stderr, "{}", format_rows(*second, rows));
  if (o.json_file) write_text_file(*o.json_file, json_text(rows));
  if (o.legacy_csv) write_text_file(*o.legacy_csv, legacy_csv_text(rows));
  if (!rows.empty() && pending_signal() == 0) write_plots(o, rows);
  if (pending_signal() != 0) return signal_exit_status(pending_signal());
  const int by_rows = bench_exit_status(rows);
  return by_rows != 0 ? by_rows : status;
}

}  // namespace

std::string own_program() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(Code::Device, "/proc/self/exe: {}", error.message());
  return path.string();
}

std::vector<std::string> group_command(const ParsedArgs& args, const BenchGroup& group, size_t n_skip) {
  // Those that say how many processes there are and what is done with their rows, or that a group fixes.
  static const std::set<std::string> kept_here = {
      "model",      "n_batch",     "n_parallel", "n_threads",   "opt",    "output",
      "output_err", "legacy_csv",  "timeout",    "arm",         "rounds", "null_every_arm",
      "resident",   "out",         "resume",     "gate",        "plot",   "dat",
      "x",          "y",           "log_axes",   "compare",     "bin",    "json",
      "json_file",  "bench_child", "bench_skip", "bench_rounds"};
  std::vector<std::string> argv = {own_program(), "bench", "--bench-child"};
  const auto flags = given_flags(args, [](const OptionRow& row) { return !kept_here.contains(row.name); });
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.push_back("--model=" + group.model);
  argv.push_back(fmt::format("--n-batch={}", group.n_batch));
  argv.push_back(fmt::format("--n-parallel={}", group.n_parallel));
  if (group.n_threads > 0) argv.push_back(fmt::format("--n-threads={}", group.n_threads));
  for (const auto& [name, value] : group.opt) argv.push_back(fmt::format("--{}={}", name, value));
  if (n_skip > 0) argv.push_back(fmt::format("--bench-skip={}", n_skip));
  return argv;
}

int run_bench(const ParsedArgs& args) {
  check_options(args.options);
  if (args.options.compare) return run_bench_compare(args);
  if (is_files(args)) return run_bench_plot(args);
  if (args.positionals == std::vector<std::string>{"qmm"}) return run_bench_qmm(args);
  for (const char* name : {"shape", "m_rows", "route", "warm", "fit_routes", "format"}) {
    if (args.has(name)) fail(Code::BadRequest, "{} is given without qmm: loft bench qmm measures products", name);
  }
  const std::vector<std::string> models = models_of(args);
  if (args.options.bench_child) return measure_here(args, models);
  if (!args.options.arm.empty()) return run_bench_arms(args, models);
  return run_plan(args, models);
}

}  // namespace loft
