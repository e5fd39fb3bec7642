// apps: loft trace: teacher-forced logit traces of one shape, or of all standard ones after one load.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/build_info.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "core/error.h"
#include "core/file_map.h"
#include "engine/open_engine.h"
#include "measure/corpus.h"
#include "measure/logit_trace.h"
#include "measure/model_id.h"

namespace loft {
namespace {

/// What the positional form can set, behind MODEL and TEXT.
struct ShapePosition {
  const char* option;
  int64_t TraceShape::*value;
  bool (*parse)(std::string_view, uint64_t&);
  std::string (*wanted)();
};
constexpr ShapePosition kShapePositions[] = {
    {"chunk", &TraceShape::chunk, Rows::parse, Rows::wanted},
    {"max_chunks", &TraceShape::max_chunks, Rows::parse, Rows::wanted},
    {"topk", &TraceShape::topk, TopCount::parse, TopCount::wanted},
    {"prefill", &TraceShape::prefill, Entries::parse, Entries::wanted},
};
constexpr size_t kFirstShapePosition = 2;

/// Options that the head tells already, and those that change where a trace goes or how soon it is there, but no byte.
constexpr const char* kNotRecorded[] = {
    "chunk",   "max_chunks", "topk",       "prefill",  "start_token", "variant",        "bos",          "out",
    "out_dir", "plain",      "repeat",     "find_nan", "label",       "scrub",          "json",         "json_file",
    "quiet",   "verbose",    "models_dir", "threads",  "device",      "explain_routes", "memory_limit", "cache_limit"};

struct NamedShape {
  std::string name;  // empty for one that has none
  TraceShape shape;
};

/// The shape by options and positions; a value given in both forms is refused.
TraceShape shape_of(const ParsedArgs& args) {
  const Options& o = args.options;
  TraceShape shape{.chunk = int64_t(o.chunk),
                   .max_chunks = int64_t(o.max_chunks),
                   .topk = int64_t(o.topk),
                   .prefill = int64_t(o.prefill),
                   .start = int64_t(o.start_token)};
  for (size_t i = 0; i + kFirstShapePosition < args.positionals.size(); ++i) {
    const ShapePosition& p = kShapePositions[i];
    const std::string& text = args.positionals[i + kFirstShapePosition];
    uint64_t value = 0;
    if (args.has(p.option)) fail(Code::BadRequest, "{}: given as an option and by its position ({})", p.option, text);
    if (!p.parse(text, value)) fail(Code::BadRequest, "{}: found '{}', wanted {}", p.option, text, p.wanted());
    shape.*p.value = int64_t(value);
  }
  return shape;
}

std::vector<NamedShape> shapes_of(const ParsedArgs& args) {
  const std::string& variant = args.options.variant;
  if (variant.empty()) return {{"", shape_of(args)}};
  if (args.positionals.size() > kFirstShapePosition) {
    fail(Code::BadRequest, "--variant {}: '{}' is given as well", variant, args.positionals[kFirstShapePosition]);
  }
  for (const char* name : {"chunk", "max_chunks", "topk", "prefill", "start_token"}) {
    if (args.has(name)) fail(Code::BadRequest, "--variant {}: {} is given as well", variant, name);
  }
  std::vector<NamedShape> out;
  for (const TraceVariant& v : trace_variants()) {
    if (variant == "all" || variant == v.name) out.push_back({v.name, v.shape});
  }
  return out;
}

void check_options(const Options& o) {
  if (o.lora || o.lora_mode) fail(Code::BadRequest, "--lora, --lora-mode: loft has no adapters yet");
  const bool is_all = o.variant == "all";
  if (is_all && !o.out_dir) fail(Code::BadRequest, "--variant all: wanted --out-dir DIR for its five files");
  if (is_all && o.out) fail(Code::BadRequest, "--variant all: --out is given, wanted --out-dir");
  if (!is_all && o.out_dir) fail(Code::BadRequest, "--out-dir: wanted with --variant all only");
  if (o.json && !is_all && !o.out)
    fail(Code::BadRequest, "--json: stdout takes the JSON, wanted --out FILE for the trace");
}

std::string one_line(const std::string& text, const char* what) {
  for (const char c : text) {
    if (uint8_t(c) < 0x20) fail(Code::BadRequest, "{}: found a control character, wanted one line of text", what);
  }
  return text;
}

/// A loaded model with its text.
struct TraceInput {
  const ParsedArgs& args;
  std::filesystem::path folder{};
  Corpus corpus{};
  std::optional<int32_t> bos{};
  TraceHead head{};
  std::unique_ptr<Backend> backend{};
  std::unique_ptr<Model> model{};
  MemoryStats loaded{};
};

TraceInput open_input(const ParsedArgs& args, const std::vector<NamedShape>& shapes) {
  const Options& o = args.options;
  TraceInput in{.args = args};
  const std::vector<std::string> environment = process_environment();
  in.folder = resolve_model(args.positionals[0], {.models_dir = o.models_dir, .environment = environment});
  const auto shown = [&](const std::string& path) { return o.scrub ? scrubbed(path) : path; };
  in.head = {.model = one_line(o.label.value_or(shown(args.positionals[0])), "model"),
             .corpus = one_line(shown(args.positionals[1]), "text"),
             .version = build_json()["version"],
             .options = set_options(args, kTrace, kNotRecorded),
             .is_plain = o.plain};
  const ModelConfig config = read_config(in.folder);
  const Tokenizer tokenizer = Tokenizer::load(in.folder);
  in.corpus = read_corpus(args.positionals[1], tokenizer, false);
  in.bos = begin_token(tokenizer);
  ForcedNeeds needs;
  for (const NamedShape& s : shapes) {
    const auto plan = plan_trace(s.shape, in.corpus.ids, in.bos, *trace_bos_from_name(o.bos));
    check_trace(s.shape, plan, config);
    needs = largest(needs, forced_needs(plan, 1));
  }
  in.backend = backend_from_options(o);
  in.model = load_model(in.folder, *in.backend, forced_model_options(o, needs, config.vocab_size));
  in.loaded = in.backend->memory();
  in.backend->reset_peak();
  return in;
}

OrderedJson json_of(const TraceInput& in, const NamedShape& shape, const TraceJob& job, const TraceSummary& summary,
                    double seconds) {
  OrderedJson out = {
      {"schema", "loft.trace/1"},
      {"model", in.head.model},
      {"model_id", model_id(in.folder)},
      {"corpus", {{"name", in.head.corpus}, {"sha256", in.corpus.sha256}, {"tokens", in.corpus.ids.size()}}},
      {"variant", shape.name.empty() ? OrderedJson(nullptr) : OrderedJson(shape.name)}};
  out.update(trace_json(job, summary));
  out["device"] = device_json(in.backend->device());
  out["build"] = build_json();
  out["options"] = options_json(set_options(in.args, kTrace), in.args.options.scrub);
  out["qmm"] = qmm_stats_json(in.model->qmm_stats());
  out["memory"] = {{"load", memory_json(in.loaded)}, {"run", memory_json(in.backend->memory())}};
  out["seconds"] = seconds;
  return out;
}

/// Traces one shape as often as asked; the JSON object. nullopt when the bytes of two runs differ.
std::optional<OrderedJson> trace_shape(const TraceInput& in, const NamedShape& shape,
                                       const std::optional<std::filesystem::path>& file) {
  const Options& o = in.args.options;
  ProgressLine progress(o.quiet);
  const TraceJob job{.backend = *in.backend,
                     .model = *in.model,
                     .kv_dtype = kv_dtype(o),
                     .logits_dtype = activation_dtype(o),
                     .shape = shape.shape,
                     .head = in.head,
                     .ids = in.corpus.ids,
                     .bos = in.bos,
                     .bos_rule = *trace_bos_from_name(o.bos),
                     .find_nan = o.find_nan,
                     .on_chunk = [&](int64_t done, int64_t total) {
                       progress.update("chunks", uint64_t(done), uint64_t(total), 2000);
                     }};
  const bool streams = !file && o.repeat == 1;
  const auto begin = std::chrono::steady_clock::now();
  std::string text, again;
  const TraceSummary summary = trace_logits(job, [&](std::string_view part) {
    if (streams) return write_data(part);
    text += part;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (uint64_t i = 1; i < o.repeat; ++i) {
    again.clear();
    trace_logits(job, [&](std::string_view part) { again += part; });
    if (again == text) continue;
    const auto at = std::mismatch(text.begin(), text.end(), again.begin(), again.end()).first;
    fmt::print(stderr, "loft: run {} differs from the first in line {}\n", i + 1,
               std::count(text.begin(), at, '\n') + 1);
    return std::nullopt;
  }
  progress.clear();
  if (file) write_text_file(*file, text);
  if (!file && !streams) write_data(text);
  if (!o.quiet) {
    fmt::print(stderr, "{}{}{} rows, mean nll {:.6f}, {:.1f} s\n", shape.name, shape.name.empty() ? "" : ": ",
               summary.n_rows, summary.mean_nll, seconds);
  }
  return json_of(in, shape, job, summary, seconds);
}

}  // namespace

int run_trace(const ParsedArgs& args) {
  const Options& o = args.options;
  check_options(o);
  const std::vector<NamedShape> shapes = shapes_of(args);
  const TraceInput in = open_input(args, shapes);
  if (o.out_dir) {
    std::error_code error;
    std::filesystem::create_directories(*o.out_dir, error);
    if (error) fail(Code::NotFound, "{}: cannot be made: {}", *o.out_dir, error.message());
  }
  OrderedJson all = OrderedJson::array();
  for (const NamedShape& shape : shapes) {
    std::optional<std::filesystem::path> file;
    if (o.out) file = *o.out;
    if (o.out_dir) file = std::filesystem::path(*o.out_dir) / (shape.name + ".tsv");
    const std::optional<OrderedJson> one = trace_shape(in, shape, file);
    if (!one) return 1;
    all.push_back(*one);
  }
  const OrderedJson result = o.variant == "all" ? OrderedJson{{"schema", "loft.trace/1"}, {"traces", all}} : all[0];
  const std::string json = dump_json(result) + "\n";
  if (o.json_file) write_text_file(*o.json_file, json);
  if (o.json) write_data(json);
  return 0;
}

}  // namespace loft
