// apps: the loop over an engine's steps for one request, and the two forms in which its end is told.
#include "apps/answer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/signals.h"
#include "core/json.h"

namespace loft {
namespace {

/// Three decimals are more than a clock is worth.
double rounded(double x) {
  return std::round(x * 1000) / 1000;
}

std::string token_text(const Engine& engine, int32_t id) {
  const int32_t ids[] = {id};
  std::string text = engine.tokenizer().decode(ids, false);
  return text.empty() ? engine.tokenizer().piece(id).value_or("") : text;
}

OrderedJson top_json(const std::vector<TokenLogprob>& top, const Engine& engine, bool with_logit) {
  OrderedJson list = OrderedJson::array();
  for (const TokenLogprob& t : top) {
    OrderedJson entry = {{"id", t.id}, {"token", token_text(engine, t.id)}};
    if (with_logit) entry["logit"] = t.logit;
    entry["logprob"] = t.logprob;
    list.push_back(std::move(entry));
  }
  return list;
}

OrderedJson logprobs_json(const AnswerResult& result, const Engine& engine) {
  OrderedJson list = OrderedJson::array();
  for (const RowLogprobs& row : result.logprobs) {
    list.push_back({{"id", row.chosen.id},
                    {"token", token_text(engine, row.chosen.id)},
                    {"logprob", row.chosen.logprob},
                    {"top", top_json(row.top, engine, false)}});
  }
  return list;
}

}  // namespace

AnswerResult run_request(Engine& engine, Request request, const AnswerHooks& hooks) {
  const auto n_prompt = int64_t(request.prompt.size());
  const SequenceId id = engine.submit(std::move(request));
  AnswerResult result;
  bool is_cancelled = false;
  for (bool is_done = false; !is_done;) {
    if (!is_cancelled && pending_signal() != 0) {
      result.signal = pending_signal();
      is_cancelled = engine.cancel(id);
    }
    for (const StepEvent& e : engine.step()) {
      if (e.sequence != id) continue;
      if (e.token) {
        result.tokens.push_back(e.token->id);
        if (e.token->logprobs) result.logprobs.push_back(*e.token->logprobs);
      }
      if (hooks.on_prompt) hooks.on_prompt(e.prompt_done, n_prompt);
      result.text += e.text;
      if (hooks.on_text && !e.text.empty()) hooks.on_text(e.text);
      if (!e.finish) continue;
      result.finish = *e.finish;
      is_done = true;
    }
  }
  if (result.finish.failure) fail(result.finish.failure->code, result.finish.failure->message);
  return result;
}

std::string closing_line(const AnswerResult& result) {
  const Finish& f = result.finish;
  const std::string cached = f.usage.cached_tokens > 0 ? fmt::format(" ({} reused)", f.usage.cached_tokens) : "";
  return fmt::format("prompt {} tokens{}, {:.1f} tok/s; answer {} tokens, {:.1f} tok/s; peak memory {:.1f} MiB",
                     f.usage.prompt_tokens, cached, f.timings.prefill_tok_s(), f.usage.completion_tokens,
                     f.timings.decode_tok_s(), double(read_process_memory().peak_resident_bytes) / double(1 << 20));
}

std::string answer_json(const AnswerFacts& facts, const AnswerResult& result, Engine& engine) {
  const Finish& f = result.finish;
  const EngineStats& stats = engine.stats();
  OrderedJson out = {
      {"schema", "loft.run/1"},
      {"model", facts.model},
      {"prompt_tokens", facts.prompt},
      {"tokens", result.tokens},
      {"text", result.text},
      {"finish_reason", finish_reason_name(f.reason)},
      {"stop", f.stop ? OrderedJson(*f.stop) : OrderedJson(nullptr)},
      {"usage", {{"prompt_tokens", f.usage.prompt_tokens}, {"completion_tokens", f.usage.completion_tokens}}},
      {"timings",
       {{"load_ms", rounded(stats.load_ms)},
        {"prefill_ms", rounded(f.timings.prefill_ms)},
        {"decode_ms", rounded(f.timings.decode_ms)},
        {"prefill_tok_s", rounded(f.timings.prefill_tok_s())},
        {"decode_tok_s", rounded(f.timings.decode_tok_s())}}},
      {"memory", memory_json(stats, engine.backend().memory())},
      {"qmm", qmm_stats_json(engine.qmm_stats())},
      {"seed", facts.seed},
  };
  if (!result.logprobs.empty()) out["logprobs"] = logprobs_json(result, engine);
  if (facts.wants_next) out["next"] = {{"top", top_json(f.next, engine, true)}};
  return dump_json(out) + "\n";
}

}  // namespace loft
