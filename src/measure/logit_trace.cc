#include "measure/logit_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"
#include "engine/logits.h"

namespace loft {
namespace {

constexpr TraceVariant kVariants[] = {
    {"w1", {.chunk = 1, .max_chunks = 128, .topk = 8, .prefill = 0, .start = 0}},
    {"w8", {.chunk = 8, .max_chunks = 80, .topk = 8, .prefill = 512, .start = 0}},
    {"w256", {.chunk = 256, .max_chunks = 2, .topk = 8, .prefill = 0, .start = 0}},
    {"w1ctx512", {.chunk = 1, .max_chunks = 128, .topk = 8, .prefill = 512, .start = 512}},
    {"w8ctx1536", {.chunk = 8, .max_chunks = 40, .topk = 8, .prefill = 1536, .start = 1536}},
};

constexpr std::pair<const char*, TraceBos> kBosRules[] = {
    {"reference", TraceBos::Reference}, {"always", TraceBos::Always}, {"never", TraceBos::Never}};

/// Hashes what it passes on.
class Writer {
 public:
  explicit Writer(const std::function<void(std::string_view)>& sink) : sink_(sink) {}
  void comment(const std::string& line) {
    const std::string text = "# " + line + "\n";
    file_.update(text);
    sink_(text);
  }
  void rows(std::string_view text) {
    file_.update(text);
    data_.update(text);
    sink_(text);
  }
  std::string data_hex() { return data_.hex(); }
  std::string file_hex() { return file_.hex(); }

 private:
  const std::function<void(std::string_view)>& sink_;
  Sha256 data_, file_;
};

/// The position at which a trace ends early.
struct NonFiniteRow {
  int64_t pos = 0;
};

void append_row(std::string& out, int64_t chunk, int64_t pos, const RowLogprobs& row) {
  out += fmt::format("{}\t{}\t{}\t", chunk, pos, row.chosen.id);
  append_fixed6(out, float(-row.chosen.logprob));
  char separator = '\t';
  for (const TokenLogprob& t : row.top) {
    out += separator;
    out += std::to_string(t.id);
    separator = ',';
  }
  separator = '\t';
  for (const TokenLogprob& t : row.top) {
    out += separator;
    append_fixed6(out, t.logit);
    separator = ',';
  }
  out += '\n';
}

std::string counts_text(const std::map<std::string, uint64_t>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name, count);
  return out.empty() ? "-" : out;
}

const char* pass_name(const ForcedPass& pass) {
  return pass.is_context ? "context" : "scored";
}

std::string forward_line(const TracePass& p) {
  return fmt::format("forward\t{}\t{}\trows\t{}\tpast\t{}\troutes\t{}\tkernels\t{}", p.chunk, pass_name(p.pass),
                     p.pass.rows, p.pass.past, counts_text(p.pass.routes), counts_text(p.pass.kernels));
}

void write_head(const TraceJob& job, int64_t n_chunks, const std::string& logits_dtype, Writer& writer) {
  const TraceHead& head = job.head;
  const TraceShape& s = job.shape;
  writer.comment(fmt::format("model\t{}", head.model));
  writer.comment(fmt::format("corpus\t{}\ttokens\t{}", head.corpus, job.ids.size()));
  writer.comment(
      fmt::format("chunks\t{}\tchunk_tokens\t{}\ttopk\t{}\tprefill\t{}", n_chunks, s.chunk, s.topk, s.prefill));
  writer.comment("columns\tchunk\tpos\ttarget\tnll\ttop_ids\ttop_logits");
  if (head.is_plain) return;
  const DeviceInfo& device = job.backend.device();
  writer.comment(fmt::format("loft\t1\tversion\t{}", head.version));
  writer.comment(fmt::format("device\t{}\t{}", device_kind_name(device.kind), device.name));
  writer.comment(fmt::format("start\t{}\tbos\t{}\tlogits\t{}", s.start,
                             job.bos && job.bos_rule != TraceBos::Never ? std::to_string(*job.bos) : "-",
                             logits_dtype));
  for (const SetOption& o : head.options) writer.comment(fmt::format("option\t{}\t{}\t{}", o.name, o.value, o.source));
}

/// One chunk: its rows as text.
struct ChunkRows {
  std::string text{};
  std::vector<ForcedPass> passes{};
};

ChunkRows run_chunk(const TraceJob& job, int64_t chunk, const ForcedSequence& s, std::vector<float>& losses,
                    std::optional<NonFiniteRow>& broken) {
  ChunkRows out;
  out.passes = forced_forward(job.backend, job.model, job.kv_dtype, {&s, 1},
                              [&](int64_t, int64_t row, std::span<const float> logits) {
                                if (broken) return;
                                const int64_t pos = row - s.first_row;
                                if (find_non_finite(logits)) {
                                  broken = NonFiniteRow{pos};
                                  return;
                                }
                                const RowLogprobs scored = row_logprobs(logits, s.ids[size_t(row + 1)], job.shape.topk);
                                losses.push_back(float(-scored.chosen.logprob));
                                append_row(out.text, chunk, pos, scored);
                              });
  return out;
}

[[noreturn]] void abort_trace(const TraceJob& job, int64_t chunk, int64_t pos, const ForcedSequence& s,
                              Writer& writer) {
  writer.comment(fmt::format("abort\t{}\t{}", chunk, pos));
  std::string where;
  if (job.find_nan) {
    where = fmt::format("; first seen in {}", first_non_finite(job.backend, job.model, job.kv_dtype, s));
  }
  fail(Code::NonFinite, "chunk {}, position {}: a logit is not finite{}", chunk, pos, where);
}

OrderedJson counts_json(const std::map<std::string, uint64_t>& counts) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, count] : counts) out[name] = count;
  return out;
}

}  // namespace

std::span<const TraceVariant> trace_variants() {
  return kVariants;
}

std::optional<TraceBos> trace_bos_from_name(std::string_view name) {
  for (const auto& [known, rule] : kBosRules) {
    if (name == known) return rule;
  }
  return std::nullopt;
}

std::vector<ForcedSequence> plan_trace(const TraceShape& shape, std::span<const int32_t> ids,
                                       std::optional<int32_t> bos, TraceBos rule) {
  const int64_t n_tokens = int64_t(ids.size());
  const int64_t n = std::min(shape.max_chunks, (n_tokens - 1 - shape.start) / shape.chunk);
  if (n_tokens < 2 || shape.start >= n_tokens || n < 1) {
    fail(Code::Corrupt, "text too short: {} tokens, wanted at least {}", n_tokens, shape.start + shape.chunk + 1);
  }
  std::vector<ForcedSequence> plan;
  for (int64_t c = 0; c < n; ++c) {
    const int64_t begin = shape.start + c * shape.chunk;
    const auto tokens = [&](int64_t from, int64_t to) {
      return std::vector<int32_t>(ids.begin() + from, ids.begin() + to);
    };
    ForcedSequence s{.context = tokens(std::max<int64_t>(0, begin - shape.prefill), begin),
                     .ids = tokens(begin, begin + shape.chunk + 1)};
    // Only the start of the text is bare: what stands there is all that the model would have seen.
    const bool has_bos = bos && (rule == TraceBos::Always || (rule == TraceBos::Reference && begin > 0));
    if (has_bos && !s.context.empty()) {
      s.context.insert(s.context.begin(), *bos);
    } else if (has_bos) {
      s.ids.insert(s.ids.begin(), *bos);
      s.first_row = 1;
    }
    plan.push_back(std::move(s));
  }
  return plan;
}

void check_trace(const TraceShape& shape, std::span<const ForcedSequence> plan, const ModelConfig& config) {
  if (shape.topk >= config.vocab_size) {
    fail(Code::BadRequest, "topk: found {}, wanted less than the vocabulary of {}", shape.topk, config.vocab_size);
  }
  const int64_t longest = forced_needs(plan, 1).max_tokens;
  if (longest > config.max_positions) {
    fail(Code::BadRequest, "chunk and prefill: found sequences of {} tokens, wanted at most the model's {}", longest,
         config.max_positions);
  }
}

TraceSummary trace_logits(const TraceJob& job, const std::function<void(std::string_view)>& sink) {
  const std::vector<ForcedSequence> plan = plan_trace(job.shape, job.ids, job.bos, job.bos_rule);
  check_trace(job.shape, plan, job.model.config());
  TraceSummary out{.n_tokens = int64_t(job.ids.size()),
                   .n_chunks = int64_t(plan.size()),
                   .logits_dtype = dtype_name(job.logits_dtype)};
  Writer writer(sink);
  write_head(job, out.n_chunks, out.logits_dtype, writer);
  std::vector<float> losses;
  for (int64_t c = 0; c < out.n_chunks; ++c) {
    const ForcedSequence& s = plan[size_t(c)];
    std::optional<NonFiniteRow> broken;
    ChunkRows rows = run_chunk(job, c, s, losses, broken);
    for (ForcedPass& pass : rows.passes) {
      out.passes.push_back({.chunk = c, .pass = std::move(pass)});
      if (!job.head.is_plain) writer.comment(forward_line(out.passes.back()));
    }
    writer.rows(rows.text);
    if (broken) abort_trace(job, c, broken->pos, s, writer);
    if (job.on_chunk) job.on_chunk(c + 1, out.n_chunks);
  }
  out.n_rows = int64_t(losses.size());
  double sum = 0;
  for (const float loss : losses) sum += double(loss);
  out.mean_nll = sum / double(out.n_rows);
  if (!job.head.is_plain) writer.comment(fmt::format("end\trows\t{}", out.n_rows));
  out.data_sha256 = writer.data_hex();
  out.file_sha256 = writer.file_hex();
  return out;
}

OrderedJson trace_json(const TraceJob& job, const TraceSummary& summary) {
  OrderedJson forwards = OrderedJson::array();
  for (const TracePass& p : summary.passes) {
    forwards.push_back({{"chunk", p.chunk},
                        {"what", pass_name(p.pass)},
                        {"rows", p.pass.rows},
                        {"past", p.pass.past},
                        {"routes", counts_json(p.pass.routes)},
                        {"kernels", counts_json(p.pass.kernels)}});
  }
  const double ppl = std::exp(summary.mean_nll);
  return {{"shape",
           {{"chunk", job.shape.chunk},
            {"max_chunks", job.shape.max_chunks},
            {"topk", job.shape.topk},
            {"prefill", job.shape.prefill},
            {"start_token", job.shape.start}}},
          {"bos", job.bos && job.bos_rule != TraceBos::Never ? OrderedJson(*job.bos) : OrderedJson(nullptr)},
          {"logits", summary.logits_dtype},
          {"chunks", summary.n_chunks},
          {"rows", summary.n_rows},
          {"mean_nll", summary.mean_nll},
          {"ppl", std::isfinite(ppl) ? OrderedJson(ppl) : OrderedJson(nullptr)},
          {"data_sha256", summary.data_sha256},
          {"file_sha256", summary.file_sha256},
          {"forwards", forwards}};
}

void append_fixed6(std::string& out, float x) {
  char text[64];  // the largest float has 39 digits before the point
  const auto end = std::to_chars(text, text + sizeof(text), x, std::chars_format::fixed, 6).ptr;
  out.append(text, end);
}

}  // namespace loft
