// measure: teacher-forced logit traces in the published TSV form. What enters: a model, the tokens of a text, a shape.
// What leaves: lines of text, and a summary. measure/trace_file.h reads such a file again.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/run_record.h"
#include "measure/teacher_forced.h"

namespace loft {

struct TraceShape {
  int64_t chunk = 256;     // tokens scored in one pass
  int64_t max_chunks = 4;  // at most
  int64_t topk = 8;        // ids told of each position
  int64_t prefill = 0;     // tokens fed before a chunk, unscored
  int64_t start = 0;       // token of the text at which chunk 0 begins
};

struct TraceVariant {
  const char* name;
  TraceShape shape;
};
/// w1, w8, w256, w1ctx512, w8ctx1536: the published shapes.
std::span<const TraceVariant> trace_variants();

/// Where the begin token stands. Reference: before every chunk that does not start at token 0 of the text, or before
/// its context. Always, Never: in every sequence, in none.
enum class TraceBos : uint8_t { Reference, Always, Never };
std::optional<TraceBos> trace_bos_from_name(std::string_view name);

/// The sequences of a trace. n = min(max_chunks, (T - 1 - start) / chunk) of them; the tail that fills no chunk is not
/// scored. Error: Corrupt "text too short: T tokens" when n is 0.
std::vector<ForcedSequence> plan_trace(const TraceShape& shape, std::span<const int32_t> ids,
                                       std::optional<int32_t> bos, TraceBos rule);

/// Error: BadRequest when topk is not below the vocabulary or a sequence is longer than the model's context.
void check_trace(const TraceShape& shape, std::span<const ForcedSequence> plan, const ModelConfig& config);

/// What the head of the file says.
struct TraceHead {
  std::string model{};    // as typed, or its label
  std::string corpus{};   // as typed
  std::string version{};  // of loft
  std::vector<SetOption> options{};
  bool is_plain = false;  // only the lines of the published format
};

struct TraceJob {
  Backend& backend;
  Model& model;
  DType kv_dtype = DType::F16;
  DType logits_dtype = DType::F32;
  TraceShape shape{};
  TraceHead head{};
  std::span<const int32_t> ids{};  // of the whole text
  std::optional<int32_t> bos{};    // of the tokenizer
  TraceBos bos_rule = TraceBos::Reference;
  bool find_nan = false;
  std::function<void(int64_t done, int64_t total)> on_chunk{};
};

struct TracePass {
  int64_t chunk = 0;
  ForcedPass pass{};
};

struct TraceSummary {
  int64_t n_tokens = 0;
  int64_t n_chunks = 0;
  int64_t n_rows = 0;
  double mean_nll = 0;
  std::string logits_dtype{};
  std::vector<TracePass> passes{};
  std::string data_sha256{};  // of the lines that do not start with '#'
  std::string file_sha256{};
};

/// Runs the trace and gives its lines to `sink`, chunk after chunk. Errors: those of plan_trace and check_trace;
/// NonFinite with chunk and position, after the sink got "# abort".
TraceSummary trace_logits(const TraceJob& job, const std::function<void(std::string_view)>& sink);

/// The summary with its shape as JSON members, for "loft.trace/1".
OrderedJson trace_json(const TraceJob& job, const TraceSummary& summary);

/// Appends x with six decimals, as C's %.6f does in every locale.
void append_fixed6(std::string& out, float x);

}  // namespace loft
