// apps: loft bench. Options enter; this process plans, asks processes of its own to measure, and prints what they say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "apps/apps.h"
#include "apps/bench_apps.h"
#include "apps/build_info.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "apps/signals.h"
#include "core/error.h"
#include "core/file_map.h"
#include "measure/bench_formats.h"
#include "measure/bench_group.h"
#include "measure/bench_parent.h"
#include "measure/bench_row.h"
#include "measure/run_record.h"

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
  if (o.bench_count > 0) run.tests.resize(std::min(run.tests.size(), run.n_skip + size_t(o.bench_count)));
  if (o.bench_limit > 0) alarm(unsigned(std::ceil(o.bench_limit)));
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

void rest(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (pending_signal() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

/// Each flag as it was given; with --scrub, paths as their last component.
std::string shown_flags(const ParsedArgs& args) {
  const std::vector<std::string> flags = given_flags(args, [](const OptionRow&) { return true; });
  return fmt::format("{}", fmt::join(args.options.scrub ? scrubbed_words(flags) : flags, " "));
}

/// Rows of disturbed attempts stay beside the result, as FILE.rejected-N.
void write_rejected(const Options& o, const std::map<size_t, std::vector<OrderedJson>>& rejected) {
  if (!o.json_file) return;
  for (const auto& [attempt, rows] : rejected)
    write_text_file(fmt::format("{}.rejected-{}", *o.json_file, attempt), json_text(rows));
}

int run_plan(const ParsedArgs& args, const std::vector<std::string>& models) {
  const Options& o = args.options;
  const BenchPlan plan = plan_bench(o, models);
  const SweepFiles files(o, models);
  const std::string flags = shown_flags(args);
  const BenchFormat format = o.json ? BenchFormat::JsonObject : *bench_format_from_name(o.output);
  std::vector<OrderedJson> rows;
  std::map<size_t, std::vector<OrderedJson>> rejected;
  ProgressLine progress(o.quiet);
  std::optional<BenchGuard> guard;
  if (o.guard) guard.emplace(args);
  const auto shown = [&](OrderedJson row) {
    row["flags"] = flags;
    put_shown_names(row, o);
    return row;
  };
  ChildRun run;
  run.command = [&](const BenchGroup& group, size_t n_skip) {
    std::vector<std::string> command = group_command(args, group, n_skip);
    if (!guard) return command;
    command.emplace_back("--bench-count=1");
    command.push_back(fmt::format("--bench-limit={}", o.timeout));
    return guard->around(command, false);
  };
  if (guard) run.guard_record = [&] { return guard->summary(); };
  run.on_rejected = [&](const OrderedJson& row, size_t attempt) { rejected[attempt].push_back(shown(row)); };
  run.timeout_seconds = o.timeout + o.delay;
  run.stop = [] { return pending_signal() != 0; };
  run.on_row = [&](const OrderedJson& measured) {
    OrderedJson row = shown(measured);
    if (format == BenchFormat::JsonLines) write_data(dump_json(row) + "\n");
    rows.push_back(std::move(row));
    progress.update("bench", rows.size(), plan.groups.size() * plan.tests.size());
  };
  catch_signals();
  int status = 0;
  for (size_t i = 0; i < plan.groups.size() && pending_signal() == 0; ++i) {
    const BenchGroup& group = plan.groups[i];
    if (i > 0) rest(o.cooldown);
    progress.update(group.model, rows.size(), plan.groups.size() * plan.tests.size());
    run.error_file = log_file(o, group, i + 1);
    const int now = run_group_in_child(group, plan.tests, run);
    if (now != 0) status = now;
    if (!rows.empty()) files.write(rows);
  }
  progress.clear();
  if (rows.empty() && pending_signal() == 0) return status;
  if (format != BenchFormat::JsonLines) write_data(format_rows(format, rows));
  if (const auto second = bench_format_from_name(o.output_err)) fmt::print(stderr, "{}", format_rows(*second, rows));
  if (o.json_file) write_text_file(*o.json_file, json_text(rows));
  write_rejected(o, rejected);
  if (o.legacy_csv) write_text_file(*o.legacy_csv, legacy_csv_text(rows));
  if (!rows.empty() && pending_signal() == 0) write_plots(o, rows);
  if (pending_signal() != 0) return signal_exit_status(pending_signal());
  const int by_rows = bench_exit_status(rows);
  return by_rows != 0 ? by_rows : status;
}

}  // namespace

void put_shown_names(OrderedJson& row, const Options& o) {
  const std::string path = row_text(row, "model_filename");
  if (o.label) row["model_filename"] = *o.label;
  if (!o.scrub) return;
  if (!o.label) row["model_filename"] = scrubbed(path);
  if (row.contains("error") && row["error"].is_string()) {
    std::string text = row_text(row, "error");
    for (size_t at = 0; !path.empty() && (at = text.find(path)) != std::string::npos;)
      text.replace(at, path.size(), row_text(row, "model_filename"));
    row["error"] = text;
  }
  if (!row.contains("options") || !row["options"].is_array()) return;
  for (OrderedJson& option : row["options"]) option["value"] = scrubbed_value(row_text(option, "value"));
}

std::string own_program() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(Code::Device, "/proc/self/exe: {}", error.message());
  return path.string();
}

std::vector<std::string> group_command(const ParsedArgs& args, const BenchGroup& group, size_t n_skip) {
  // Those that say how many processes there are and what is done with their rows, or that a group fixes.
  static const std::set<std::string> kept_here = {
      "model",         "n_batch",        "n_parallel",   "n_threads", "opt",
      "output",        "output_err",     "legacy_csv",   "timeout",   "arm",
      "rounds",        "null_every_arm", "resident",     "out",       "resume",
      "gate",          "plot",           "dat",          "x",         "y",
      "log_axes",      "compare",        "bin",          "json",      "json_file",
      "bench_child",   "bench_skip",     "bench_rounds", "guard",     "last",
      "bench_out_dir", "suffix",         "cooldown",     "raw_dir",   "label",
      "scrub",         "bench_count",    "bench_limit"};
  std::vector<std::string> argv = {own_program(), "bench", "--bench-child"};
  const auto flags =
      given_flags(args, [](const OptionRow& row) { return !kept_here.contains(row.name) && !is_guard_option(row); });
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
  check_guard(args);
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
