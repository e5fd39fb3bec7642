// apps: one request from submit to its end, with text handed on as it comes. Shared by `loft run` and its chat.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace loft {

struct AnswerResult {
  std::vector<int32_t> tokens;
  std::vector<RowLogprobs> logprobs;  // one a token, where they were asked for
  std::string text;
  Finish finish;
  int signal = 0;  // the signal that ended the answer, 0 for none
};

/// Called with each piece of text, and with prompt tokens read and all of them.
struct AnswerHooks {
  std::function<void(std::string_view)> on_text;
  std::function<void(int64_t done, int64_t total)> on_prompt;
};

/// Runs until the answer ends; a signal (signals.h) cancels it. Errors: those of submit; what struck the sequence comes
/// as Error too, after its text was handed on.
AnswerResult run_request(Engine& engine, Request request, const AnswerHooks& hooks);

/// "prompt 12 tokens, 345.1 tok/s; answer 45 tokens, 32.1 tok/s; peak memory 312.4 MiB".
std::string closing_line(const AnswerResult& result);

/// The --json object of `loft run`; `loft run --help` names its keys.
struct AnswerFacts {
  std::string model;
  std::vector<int32_t> prompt;
  uint64_t seed = 0;
  bool wants_next = false;  // -n 0 with --top-logprobs
};
std::string answer_json(const AnswerFacts& facts, const AnswerResult& result, Engine& engine);

}  // namespace loft
