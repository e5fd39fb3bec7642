// engine: one request's life as values: what is asked, what each step tells, how it ended.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/logits.h"
#include "engine/sampler.h"

namespace loft {

using SequenceId = uint64_t;

/// Prompt ids come from engine/prompt.h, the one place where special tokens are added.
struct Request {
  std::vector<int32_t> prompt;  // at least one id
  SamplerParams sampling;
  std::optional<int64_t> max_tokens;    // of the answer; unset, or beyond the room left: up to the context
  std::vector<std::string> stop;        // strings before which the answer ends
  std::optional<int64_t> top_logprobs;  // set: each token comes with its logprob and this many alternatives
  bool ignore_stop_ids = false;         // for benchmarks: go on after a stop token
};

enum class FinishReason : uint8_t { Stop, Length, Cancelled, Error };
const char* finish_reason_name(FinishReason reason);  ///< "stop", "length", "cancelled", "error"

/// Tokens of the answer are those that were generated and fed into the text; a stop token is in neither count. Tokens
/// whose text fell behind a stop string count.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, taken over from the sequence before
};

/// queue: from submit to the first step; prefill: to the first logits; decode: from there to the end.
struct Timings {
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  int64_t prefill_tokens = 0;  // fed before the first logits
  int64_t decode_steps = 0;    // forward passes after them
  double prefill_tok_s() const { return prefill_ms > 0 ? 1e3 * double(prefill_tokens) / prefill_ms : 0; }
  double decode_tok_s() const { return decode_ms > 0 ? 1e3 * double(decode_steps) / decode_ms : 0; }
};

struct Failure {
  Code code = Code::Internal;
  std::string message;
};

struct Finish {
  FinishReason reason = FinishReason::Stop;
  std::optional<std::string> stop;  // the stop string that was met
  std::optional<Failure> failure;   // reason Error
  Usage usage;
  Timings timings;
  std::vector<TokenLogprob> next;  // max_tokens 0 with top_logprobs: the distribution after the prompt
};

struct GeneratedToken {
  int32_t id = 0;
  std::optional<RowLogprobs> logprobs;  // where top_logprobs was set
};

/// What one step did for one sequence. text is whole characters, in order, and never holds a stop string or a stop
/// token; text of a token may come with a later event. After an event with `finish` the id is forgotten.
struct StepEvent {
  SequenceId sequence = 0;
  int64_t prompt_done = 0;  // tokens of the prompt that are read
  std::optional<GeneratedToken> token;
  std::string text;
  std::optional<Finish> finish;
};

}  // namespace loft
