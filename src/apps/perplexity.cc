// apps: loft perplexity: of a text, of given windows, or of a trace that is there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/build_info.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "apps/signals.h"
#include "core/error.h"
#include "core/file_map.h"
#include "engine/open_engine.h"
#include "measure/corpus.h"
#include "measure/divergence.h"
#include "measure/model_id.h"
#include "measure/perplexity.h"
#include "measure/run_record.h"

namespace loft {
namespace {

constexpr int64_t kDefaultLength = 512;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Tokens of the first n windows that go through the model, scored or not.
double fed_tokens(std::span<const ForcedSequence> windows, int64_t n) {
  int64_t sum = 0;
  for (const ForcedSequence& s : windows.first(size_t(n))) sum += s.n_rows();
  return double(sum);
}

/// "37/256 14% ppl 6.41 +/- 0.03 1830 tok/s ETA 02:41": drawn over itself on a terminal, else a line every tenth.
class WindowProgress {
 public:
  WindowProgress(bool quiet, std::span<const ForcedSequence> windows)
      : is_shown_(!quiet), is_terminal_(isatty(STDERR_FILENO) != 0), windows_(windows) {}
  ~WindowProgress() {
    if (is_drawn_) fmt::print(stderr, "\r{:79}\r", "");
  }
  void update(const LossSums& sums) {
    const int64_t done = sums.n_windows(), total = int64_t(windows_.size());
    const double seconds = seconds_since(begin_);
    const int64_t tenth = 10 * done / total;
    const bool is_due = is_terminal_ ? seconds - drawn_s_ >= 0.1 : tenth > tenth_;
    if (!is_shown_ || !is_due) return;
    drawn_s_ = seconds;
    tenth_ = tenth;
    const auto eta = int64_t(seconds / double(done) * double(total - done));
    const std::string text = fmt::format("{}/{} {}% ppl {:.2f} +/- {:.2f} {:.0f} tok/s ETA {:02}:{:02}", done, total,
                                         100 * done / total, sums.ppl(), sums.token_error().value_or(0),
                                         fed_tokens(windows_, done) / seconds, eta / 60, eta % 60);
    is_drawn_ = is_terminal_;
    fmt::print(stderr, fmt::runtime(is_terminal_ ? "\r{:<79}" : "{}\n"), text);
    std::fflush(stderr);
  }

 private:
  bool is_shown_, is_terminal_;
  bool is_drawn_ = false;
  std::span<const ForcedSequence> windows_;
  int64_t tenth_ = 0;
  double drawn_s_ = 0;
  Clock::time_point begin_ = Clock::now();
};

void refuse(const ParsedArgs& args, std::initializer_list<const char*> options, const char* why) {
  for (const char* option : options) {
    if (args.has(option)) fail(Code::BadRequest, "{} is given {}", option, why);
  }
}

void check_options(const ParsedArgs& args) {
  const Options& o = args.options;
  if (o.from_trace) {
    if (!args.positionals.empty()) {
      fail(Code::BadRequest, "--from-trace: '{}' is given as well, wanted the trace alone", args.positionals[0]);
    }
    return refuse(args, {"windows", "perplexity_mode", "ctx_size", "max_windows", "stride", "against"},
                  "with --from-trace, which runs no model");
  }
  if (args.positionals.empty()) fail(Code::BadRequest, "MODEL is missing; see loft perplexity --help");
  if (args.positionals.size() == 1 && !o.windows) fail(Code::BadRequest, "no text: wanted TEXT or --windows FILE");
  if (args.positionals.size() == 2 && o.windows) {
    fail(Code::BadRequest, "--windows: '{}' is given as well, wanted one of them", args.positionals[1]);
  }
  if (o.windows) refuse(args, {"ctx_size"}, "with --windows, whose lines have their own length");
  if (o.perplexity_mode != "stride") refuse(args, {"stride"}, "without --mode stride");
  if (o.windows && o.perplexity_mode != "mlx" && o.perplexity_mode != "llama") {
    fail(Code::BadRequest, "--windows: found --mode {}, wanted mlx or llama", o.perplexity_mode);
  }
}

/// What is scored, and where it came from.
struct Input {
  std::filesystem::path folder{};
  std::string model{};  // as it is shown
  std::string mode{};
  int64_t length = 0;
  OrderedJson corpus{};
  std::vector<ForcedSequence> windows{};
};

WindowPlan plan_of(const Options& o) {
  const int64_t length = int64_t(o.ctx_size.value_or(kDefaultLength));
  WindowPlan plan{.mode = *perplexity_mode_from_name(o.perplexity_mode),
                  .length = length,
                  .max_windows = o.max_windows,
                  .stride = int64_t(o.stride.value_or(uint64_t(std::max<int64_t>(length / 2, 1))))};
  if (length < 2) fail(Code::BadRequest, "--ctx-size: found {}, wanted at least 2", length);
  if (plan.stride > length) fail(Code::BadRequest, "--stride: found {}, wanted at most {}", plan.stride, length);
  return plan;
}

Input read_input(const ParsedArgs& args, const ModelConfig& config, Input in) {
  const Options& o = args.options;
  const auto shown = [&](const std::string& path) { return o.scrub ? scrubbed(path) : path; };
  in.model = o.label.value_or(shown(args.positionals[0]));
  in.mode = o.perplexity_mode;
  const WindowPlan plan = plan_of(o);
  in.length = plan.length;
  if (o.windows) {
    in.windows = read_windows(*o.windows, plan.mode, config.vocab_size);
    if (o.max_windows >= 0 && int64_t(in.windows.size()) > o.max_windows) in.windows.resize(size_t(o.max_windows));
    in.length = 0;
    for (const ForcedSequence& s : in.windows) in.length = std::max(in.length, int64_t(s.ids.size()));
    in.corpus = {{"name", shown(*o.windows)}};
  } else {
    const Tokenizer tokenizer = Tokenizer::load(in.folder);
    const Corpus corpus = read_corpus(args.positionals[1], tokenizer, wants_special_tokens(plan.mode));
    in.windows = plan_windows(plan, corpus.ids, begin_token(tokenizer));
    in.corpus = {{"name", shown(args.positionals[1])}, {"sha256", corpus.sha256}, {"tokens", corpus.ids.size()}};
  }
  const int64_t longest = std::max(in.length, forced_needs(in.windows, 1).max_tokens);
  if (longest > config.max_positions) {
    fail(Code::BadRequest, "--ctx-size: found windows of {} tokens, wanted at most the model's {}", longest,
         config.max_positions);
  }
  return in;
}

/// The options with some of them changed, NAME=VALUE each.
Options changed_options(const Options& options, const std::vector<std::string>& changes) {
  Options out = options;
  for (const std::string& change : changes) {
    const size_t equals = std::min(change.find('='), change.size());
    std::string name = change.substr(0, equals);
    std::replace(name.begin(), name.end(), '-', '_');
    const auto rows = option_rows();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const OptionRow& r) { return name == r.name && (r.where & kPerplexity) != 0; });
    if (row == rows.end()) fail(Code::BadRequest, "--against: no option {} of loft perplexity", name);
    if (equals == change.size() || !row->set(out, change.substr(equals + 1))) {
      fail(Code::BadRequest, "--against: found '{}', wanted {}={}", change, name, row->wanted);
    }
  }
  return out;
}

/// A model for the windows, under one set of options.
struct Loaded {
  std::unique_ptr<Backend> backend{};
  std::unique_ptr<Model> model{};
  MemoryStats memory{};
};

Loaded load(const Input& in, const Options& o, const ForcedNeeds& needs, int64_t vocab_size) {
  Loaded loaded{.backend = backend_from_options(o)};
  loaded.model = load_model(in.folder, *loaded.backend, forced_model_options(o, needs, vocab_size));
  loaded.memory = loaded.backend->memory();
  loaded.backend->reset_peak();
  return loaded;
}

struct Result {
  LossSums sums{};
  std::vector<int64_t> rows{};  // of each pass
  std::optional<Divergence> divergence{};
  double seconds = 0;
};

Result run_windows(const Options& o, const Input& in, Loaded& loaded) {
  WindowProgress progress(o.quiet, in.windows);
  Result result;
  const auto begin = Clock::now();
  const PerplexityJob job{.backend = *loaded.backend,
                          .model = *loaded.model,
                          .kv_dtype = kv_dtype(o),
                          .windows = in.windows,
                          .batch = int64_t(o.batch_size)};
  result.rows = score_windows(job, result.sums, [&] {
    progress.update(result.sums);
    return pending_signal() == 0;
  });
  result.seconds = seconds_since(begin);
  return result;
}

Result run_against(const Options& o, const Input& in, Loaded& loaded, int64_t block, int64_t vocab_size) {
  const Options reference_options = changed_options(o, o.against);
  ForcedNeeds needs = forced_needs(in.windows, 1);
  needs.max_rows = needs.max_chunk = block;
  const Loaded reference = load(in, reference_options, needs, vocab_size);
  WindowProgress progress(o.quiet, in.windows);
  Result result;
  const auto begin = Clock::now();
  Divergence d;
  run_divergence({*reference.backend, *reference.model, kv_dtype(reference_options)},
                 {*loaded.backend, *loaded.model, kv_dtype(o)}, in.windows, block, d, [&] {
                   progress.update(d.run);
                   return pending_signal() == 0;
                 });
  result.seconds = seconds_since(begin);
  result.sums = d.run;
  result.rows.push_back(block);
  result.divergence = std::move(d);
  return result;
}

OrderedJson json_of(const ParsedArgs& args, const Input& in, const Loaded& loaded, const Result& r, bool is_partial) {
  const Options& o = args.options;
  OrderedJson out = {{"schema", "loft.perplexity/1"},
                     {"status", is_partial ? "partial" : "complete"},
                     {"mode", in.mode},
                     {"model", in.model},
                     {"model_id", model_id(in.folder)},
                     {"corpus", in.corpus},
                     {"length", in.length}};
  if (in.mode == "stride") out["stride"] = plan_of(o).stride;
  out.update(perplexity_json(r.sums));
  if (r.divergence) {
    out["against"] = o.against;
    out["divergence"] = divergence_json(*r.divergence);
  }
  out["batch_size"] = r.divergence ? 1 : o.batch_size;
  out["pass_rows"] = r.rows;
  out["device"] = device_json(loaded.backend->device());
  out["build"] = build_json();
  out["options"] = options_json(set_options(args, kPerplexity), o.scrub);
  out["qmm"] = qmm_stats_json(loaded.model->qmm_stats());
  out["memory"] = {{"load", memory_json(loaded.memory)}, {"run", memory_json(loaded.backend->memory())}};
  out["seconds"] = r.seconds;
  return out;
}

void print_result(const Options& o, const std::string& line, const OrderedJson& json) {
  const std::string text = dump_json(json) + "\n";
  if (o.json_file) write_text_file(*o.json_file, text);
  write_data(o.json ? text : line + "\n");
}

int print_trace_result(const Options& o) {
  const TraceFile trace = read_trace_file(*o.from_trace);
  const LossSums sums = trace_losses(trace);
  const auto length = trace.metadata.find("chunk_tokens");
  const std::string shown = length == trace.metadata.end() ? "?" : length->second;
  OrderedJson json = {{"schema", "loft.perplexity/1"}, {"status", "complete"}, {"mode", "trace"}};
  json["trace"] = {{"name", o.scrub ? scrubbed(*o.from_trace) : *o.from_trace}, {"data_sha256", trace.data_sha256}};
  json.update(perplexity_json(sums));
  print_result(o, perplexity_line("trace", shown, sums), json);
  return 0;
}

}  // namespace

int run_perplexity(const ParsedArgs& args) {
  const Options& o = args.options;
  check_options(args);
  if (o.from_trace) return print_trace_result(o);
  const std::vector<std::string> environment = process_environment();
  Input in;
  in.folder = resolve_model(args.positionals[0], {.models_dir = o.models_dir, .environment = environment});
  const ModelConfig config = read_config(in.folder);
  in = read_input(args, config, std::move(in));
  catch_signals();
  const bool is_compared = !o.against.empty();
  ForcedNeeds needs = forced_needs(in.windows, is_compared ? 1 : int64_t(o.batch_size));
  const int64_t block = std::min(needs.max_rows, logit_block_rows(config.vocab_size));
  if (is_compared) needs.max_rows = needs.max_chunk = block;
  Loaded loaded = load(in, o, needs, config.vocab_size);
  const Result r = is_compared ? run_against(o, in, loaded, block, config.vocab_size) : run_windows(o, in, loaded);
  const bool is_partial = r.sums.n_windows() < int64_t(in.windows.size());
  if (r.sums.n_windows() == 0) return signal_exit_status(pending_signal());
  std::string line = perplexity_line(in.mode, std::to_string(in.length), r.sums) + (is_partial ? " partial" : "");
  if (r.divergence) line += "\n" + divergence_line(*r.divergence);
  print_result(o, line, json_of(args, in, loaded, r, is_partial));
  if (!o.quiet) {
    fmt::print(stderr, "{:.0f} tok/s, peak memory {:.1f} MiB\n", fed_tokens(in.windows, r.sums.n_windows()) / r.seconds,
               double(loaded.backend->memory().peak_bytes) / double(1 << 20));
  }
  return is_partial ? signal_exit_status(pending_signal()) : 0;
}

}  // namespace loft
