// apps: loft bench --arm: an interleaved experiment. A process a round and arm, or one kept for each arm.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/apps.h"
#include "apps/bench_apps.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "apps/signals.h"
#include "backend/cpu/cpu_info.h"
#include "core/error.h"
#include "core/file_map.h"
#include "measure/bench_arms.h"
#include "measure/bench_child.h"
#include "measure/bench_formats.h"
#include "measure/bench_guard.h"
#include "measure/bench_model.h"
#include "measure/bench_row.h"
#include "measure/run_record.h"

namespace loft {
namespace {

const std::set<std::string>& experiment_options() {
  static const std::set<std::string> names = {"output",        "output_err", "legacy_csv",
                                              "arm",           "rounds",     "null_every_arm",
                                              "resident",      "out",        "resume",
                                              "gate",          "json",       "json_file",
                                              "bench_child",   "bench_skip", "bench_rounds",
                                              "quiet",         "verbose",    "plot",
                                              "dat",           "x",          "y",
                                              "log_axes",      "compare",    "guard",
                                              "bench_out_dir", "suffix",     "cooldown",
                                              "raw_dir",       "last"};
  return names;
}

const Subcommand& bench_subcommand() {
  const auto all = subcommands();
  const auto it = std::find_if(all.begin(), all.end(), [](const Subcommand& s) { return s.scope == kBench; });
  LOFT_CHECK(it != all.end());
  return *it;
}

/// The command line of one arm without its program: what all arms share, less what this one says otherwise.
struct ArmCommand {
  std::string program;
  std::vector<std::string> args;
};

ArmCommand arm_command(const ParsedArgs& args, const std::vector<std::string>& models, const BenchArm& arm) {
  const ParsedArgs own = parse_args(bench_subcommand(), arm.words, {});
  if (!own.positionals.empty())
    fail(Code::BadRequest, "--arm {}: '{}' is no flag; a model of its own is -m MODEL", arm.name, own.positionals[0]);
  for (const OptionRow& row : option_rows()) {
    if (is_guard_option(row) && own.has(row.name))
      fail(Code::BadRequest, "--arm {}: {} belongs to the whole experiment", arm.name, row.flag);
  }
  for (const std::string& name : experiment_options()) {
    if (own.has(name)) fail(Code::BadRequest, "--arm {}: --{} belongs to the whole experiment", arm.name, name);
  }
  ArmCommand command{.program = own.options.bin.value_or(own_program()), .args = {}};
  command.args = given_flags(args, [&](const OptionRow& row) {
    return !experiment_options().contains(row.name) && !is_guard_option(row) && !own.has(row.name) &&
           row.flag != "--model";
  });
  if (!own.has("model")) {
    for (const std::string& model : models) command.args.push_back("--model=" + model);
  }
  if (!own.has("repetitions") && !args.has("repetitions")) command.args.emplace_back("--repetitions=1");
  const auto flags = given_flags(own, [](const OptionRow& row) { return row.flag != "--bin"; });
  command.args.insert(command.args.end(), flags.begin(), flags.end());
  return command;
}

/// Rows of a child until it ends, or until it says that it is ready.
std::vector<OrderedJson> read_rows(Child& child, double timeout, bool* is_ready) {
  std::vector<OrderedJson> rows;
  std::string line;
  const auto stop = [] { return pending_signal() != 0; };
  while (child.read_line(line, timeout, stop) == Child::Read::Line) {
    OrderedJson row = parse_ordered_json(line, "the measuring process");
    if (row.contains("ready")) {
      *is_ready = true;
      return rows;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Loaded processes, one an arm, parked on a read between their turns.
class Residents {
 public:
  Residents(const ParsedArgs& args, const std::vector<std::string>& models, const std::vector<BenchArm>& arms)
      : timeout_(args.options.timeout) {
    double need = 0;
    const std::vector<std::string> environment = process_environment();
    for (const BenchArm& arm : arms) {
      const ArmCommand command = arm_command(args, models, arm);
      const ParsedArgs own = parse_args(bench_subcommand(), command.args, environment);
      const BenchPlan plan = plan_bench(own.options, own.options.model);
      if (plan.groups.size() != 1)
        fail(Code::BadRequest, "--resident: arm {} has {} groups, wanted one model and one value of each list",
             arm.name, plan.groups.size());
      BenchSizes sizes{.n_batch = plan.groups[0].n_batch, .n_parallel = plan.groups[0].n_parallel, .max_tokens = 1};
      for (const BenchTest& t : plan.tests) sizes.max_tokens = std::max(sizes.max_tokens, t.n_tokens());
      const auto folder =
          resolve_model(plan.groups[0].model, {.models_dir = own.options.models_dir, .environment = environment});
      need += double(estimate_memory(folder, own.options, sizes).total()) * own.options.mem_factor;
      std::vector<std::string> argv = group_command(own, plan.groups[0], 0);
      argv[0] = command.program;
      argv.emplace_back("--bench-rounds");
      commands_[arm.name] = argv;
    }
    const double have = double(usable_memory(read_text_of_system())) * args.options.mem_fraction;
    if (need > have)
      fail(Code::OutOfMemory, "--resident: all arms together need about {:.0f} bytes, {:.0f} may be used", need, have);
    for (const BenchArm& arm : arms) start(arm.name);
  }

  std::vector<OrderedJson> measure(const std::string& arm) {
    if (!children_[arm] && !start(arm)) return {};
    children_[arm]->send("go\n");
    bool is_ready = false;
    std::vector<OrderedJson> rows = read_rows(*children_[arm], timeout_, &is_ready);
    if (!is_ready) {  // it died or hangs: the round is lost, the next one gets a new process
      children_[arm].reset();
      rows.clear();
    }
    return rows;
  }

 private:
  bool start(const std::string& arm) {
    auto child = std::make_unique<Child>(commands_.at(arm));
    bool is_ready = false;
    read_rows(*child, timeout_, &is_ready);
    if (is_ready) children_[arm] = std::move(child);
    return is_ready;
  }

  double timeout_;
  std::map<std::string, std::vector<std::string>> commands_;
  std::map<std::string, std::unique_ptr<Child>> children_;
};

/// The rows of a round's arm under the guard; one row that says CONTENDED when no attempt was clean.
std::vector<OrderedJson> guarded_rows(BenchGuard& guard, const std::vector<std::string>& argv, const std::string& log) {
  constexpr double kForever = 1e9, kPatienceSeconds = 15;  // the guard bounds its own waits, the arm its tests
  Child child(guard.around(argv, true), log);
  bool ignored = false;
  std::vector<OrderedJson> rows = read_rows(child, kForever, &ignored);
  if (pending_signal() != 0) {
    child.end(kPatienceSeconds);
    return rows;
  }
  const int status = child.wait();
  const OrderedJson summary = guard.summary();
  if (is_contended(summary, status)) {
    rows.assign(1, empty_bench_row());
    rows[0]["test"] = "none";
    rows[0]["status"] = "CONTENDED";
    rows[0]["error"] = contended_text(summary);
  }
  for (OrderedJson& row : rows) row["guard"] = summary;
  return rows;
}

std::vector<OrderedJson> earlier_rows(const Options& o) {
  if (!o.out || !std::filesystem::exists(*o.out)) return {};
  if (!o.resume) fail(Code::BadRequest, "{}: exists; --resume goes on with it", *o.out);
  std::vector<OrderedJson> rows = read_bench_rows(*o.out, true);
  // A line that was cut off must not stay in front of the next one.
  write_text_file(*o.out, jsonl_text(rows));
  return rows;
}

}  // namespace

int run_bench_arms(const ParsedArgs& args, const std::vector<std::string>& models) {
  const Options& o = args.options;
  std::optional<double> gate;
  if (o.gate) gate = parse_gate(*o.gate);
  if (o.output != "md" && o.output != "json" && o.output != "jsonl")
    fail(Code::BadRequest, "--output {}: an experiment prints md, json or jsonl", o.output);
  ArmsRun run;
  run.arms = parse_arms(o.arm, o.null_every_arm);
  for (const char* name : {"bench_out_dir", "suffix", "cooldown"}) {
    if (args.has(name)) fail(Code::BadRequest, "--arm: {} is for models one after the other", name);
  }
  for (BenchArm& arm : run.arms) {
    if (o.scrub) arm.flags = fmt::format("{}", fmt::join(scrubbed_words(arm.words), " "));
  }
  for (const BenchArm& arm : run.arms) arm_command(args, models, arm);  // mistakes show before anything runs
  run.n_rounds = size_t(o.rounds);
  run.earlier = earlier_rows(o);
  run.stop = [] { return pending_signal() != 0; };
  catch_signals();
  if (o.raw_dir) std::filesystem::create_directories(*o.raw_dir);
  const std::string log = o.raw_dir ? (std::filesystem::path(*o.raw_dir) / "arms.log").string() : std::string();
  std::optional<BenchGuard> guard;
  if (o.guard) guard.emplace(args);
  std::unique_ptr<Residents> residents;
  if (o.resident) residents = std::make_unique<Residents>(args, models, run.arms);
  ProgressLine progress(o.quiet);
  size_t n_done = 0;
  run.measure = [&](const BenchArm& arm, size_t round) {
    progress.update(fmt::format("round {} {}", round + 1, arm.name), n_done++, run.n_rounds * run.arms.size());
    if (residents) return residents->measure(arm.name);
    const ArmCommand command = arm_command(args, models, arm);
    std::vector<std::string> argv = {command.program, "bench"};
    argv.insert(argv.end(), command.args.begin(), command.args.end());
    argv.emplace_back("--output=jsonl");
    if (guard) return guarded_rows(*guard, argv, log);
    Child child(argv, log);
    bool ignored = false;
    // The arm's own process watches each test; this limit is for that process.
    return read_rows(child, o.timeout + 60, &ignored);
  };
  std::ofstream out;
  if (o.out) out.open(*o.out, std::ios::app);
  run.on_row = [&](const OrderedJson& row) {
    if (o.output == "jsonl") write_data(dump_json(row) + "\n");
    if (!o.out) return;
    out << dump_json(row) << '\n' << std::flush;
    if (!out) fail(Code::Device, "{}: cannot be written", *o.out);
  };
  const ArmsReport report = run_arms(run);
  progress.clear();
  const std::string json = dump_json(arms_json(report), 1) + "\n";
  if (o.json || o.output == "json") write_data(json);
  if (!o.json && o.output == "md") write_data(arms_text(report));
  if (o.json_file) write_text_file(*o.json_file, json);
  if (pending_signal() != 0) return signal_exit_status(pending_signal());
  write_plots(o, report.rows);
  return arms_exit_status(report, gate);
}

}  // namespace loft
