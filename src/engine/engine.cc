// engine: sequences, their places, and the loop of a step: end what is cancelled, admit, plan, forward, sample, tell.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "core/log.h"
#include "engine/scheduler.h"
#include "engine/stop.h"
#include "text/stream_decoder.h"

namespace loft {
namespace {

using Clock = std::chrono::steady_clock;
double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

/// A cache that sequences use one after the other. fed: the tokens whose keys and values it holds.
struct Place {
  std::unique_ptr<KvCache> cache;
  std::vector<int32_t> fed;
  bool is_taken = false;
};

struct Sequence {
  Sequence(SequenceId id_, Request request_, const Tokenizer& tokenizer)
      : id(id_), request(std::move(request_)), decoder(tokenizer), stop(request.stop) {}
  SequenceId id;
  Request request;
  std::vector<int32_t> tokens;  // prompt and answer
  int64_t max_new = 0;          // tokens of the answer at most
  StreamDecoder decoder;
  StopMatcher stop;
  Place* place = nullptr;  // null while waiting
  int64_t cached_tokens = 0;
  bool is_cancelled = false;
  bool is_decoding = false;  // the first logits are there
  int64_t decode_steps = 0;
  Clock::time_point submitted, started, first_logits;

  int64_t n_prompt() const { return int64_t(request.prompt.size()); }
  int64_t n_generated() const { return int64_t(tokens.size()) - n_prompt(); }
  int64_t n_fed() const { return place ? place->cache->n_tokens() : 0; }
  bool needs_only_counting() const { return max_new == 0 && !request.top_logprobs; }
};

/// How many first tokens of the place's cache the sequence can take over: those that its prompt begins with, less one
/// when that were all of it (the logits of the last token are wanted). 0 when a sliding layer has lost what they would
/// see.
size_t reusable_tokens(const Place& place, const Sequence& s) {
  if (!place.cache) return 0;
  const size_t most = std::min(place.fed.size(), s.tokens.size() - 1);
  const auto end = std::mismatch(place.fed.begin(), place.fed.begin() + int64_t(most), s.tokens.begin()).first;
  const auto shared = end - place.fed.begin();
  return place.cache->can_truncate(shared) ? size_t(shared) : 0;
}

/// Tokens of an answer that a cache has room for from the start; a longer one doubles the cache between two steps.
constexpr int64_t kFirstAnswerRoom = 256;

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  constexpr const char* kNames[] = {"stop", "length", "cancelled", "error"};
  return kNames[size_t(reason)];
}

struct Engine::State {
  EngineParts parts;
  EngineOptions options;
  int64_t vocab_size = 0;
  KvCacheShape cache_shape;
  StepLimits limits;
  std::vector<int32_t> banned;  // ids of the model without a piece of the tokenizer
  std::vector<Place> places;
  std::deque<std::unique_ptr<Sequence>> waiting;
  std::vector<std::unique_ptr<Sequence>> running;  // in order of admission
  SequenceId next_id = 1;
  EngineStats stats;
  // Memory of a step, kept between steps.
  std::vector<StepEvent> events;
  std::vector<SequenceNeed> needs;
  std::vector<PlannedRows> plan;
  std::vector<int32_t> batch_tokens;
  std::vector<BatchSequence> batch_sequences;
  std::vector<int32_t> logit_rows;
  std::vector<uint8_t> raw_row;
  std::vector<float> row;
  SamplerScratch scratch;

  StepEvent& event_of(const Sequence& s);
  void finish(Sequence& s, FinishReason reason, std::optional<Failure> failure = {});
  void drop_finished();
  void end_cancelled();
  void admit();
  Place& choose_place(const Sequence& s);
  void start(Sequence& s);
  void make_room();
  void make_plan();
  bool forward(Tensor& logits);
  void note_memory(bool is_prefill);
  void take_logits(Sequence& s, const Tensor& logits, int64_t i_row);
  void accept(Sequence& s, int32_t id, std::optional<RowLogprobs> logprobs);
};

StepEvent& Engine::State::event_of(const Sequence& s) {
  for (StepEvent& e : events) {
    if (e.sequence == s.id) return e;
  }
  events.push_back(
      {.sequence = s.id, .prompt_done = std::min(s.n_fed(), s.n_prompt()), .token = {}, .text = {}, .finish = {}});
  return events.back();
}

void Engine::State::finish(Sequence& s, FinishReason reason, std::optional<Failure> failure) {
  StepEvent& event = event_of(s);
  if (!s.stop.matched()) {
    event.text += s.stop.push(s.decoder.finish());
    if (!s.stop.matched()) event.text += s.stop.finish();
  }
  // A stop string that was completed by the last bytes ends the answer as any other does.
  if (s.stop.matched() && reason == FinishReason::Length) reason = FinishReason::Stop;
  const auto now = Clock::now();
  Finish f;
  f.reason = reason;
  f.stop = s.stop.matched();
  f.failure = std::move(failure);
  f.usage = {.prompt_tokens = s.n_prompt(), .completion_tokens = s.n_generated(), .cached_tokens = s.cached_tokens};
  const bool has_started = s.place != nullptr;
  f.timings.queue_ms = ms_between(s.submitted, has_started ? s.started : now);
  if (has_started) f.timings.prefill_ms = ms_between(s.started, s.is_decoding ? s.first_logits : now);
  if (s.is_decoding) f.timings.decode_ms = ms_between(s.first_logits, now);
  f.timings.prefill_tokens = std::min(s.n_fed(), s.n_prompt()) - s.cached_tokens;
  f.timings.decode_steps = s.decode_steps;
  if (event.finish) f.next = std::move(event.finish->next);
  event.finish = std::move(f);
  if (s.place) {
    // After an error nobody knows what the cache holds.
    if (reason == FinishReason::Error) s.place->fed.clear();
    s.place->is_taken = false;
  }
}

void Engine::State::drop_finished() {
  const auto is_done = [&](const std::unique_ptr<Sequence>& s) {
    return std::any_of(events.begin(), events.end(),
                       [&](const StepEvent& e) { return e.sequence == s->id && e.finish; });
  };
  if (std::none_of(events.begin(), events.end(), [](const StepEvent& e) { return e.finish.has_value(); })) return;
  std::erase_if(running, is_done);
  std::erase_if(waiting, is_done);
}

void Engine::State::end_cancelled() {
  for (auto& s : running) {
    if (s->is_cancelled) finish(*s, FinishReason::Cancelled);
  }
  for (auto& s : waiting) {
    if (s->is_cancelled) finish(*s, FinishReason::Cancelled);
  }
  drop_finished();
}

Place& Engine::State::choose_place(const Sequence& s) {
  Place* best = nullptr;
  size_t best_shared = 0;
  for (Place& p : places) {
    if (p.is_taken) continue;
    const size_t shared = reusable_tokens(p, s);
    // Among equals the place with the shortest history is given up.
    if (!best || shared > best_shared || (shared == best_shared && p.fed.size() < best->fed.size())) {
      best = &p;
      best_shared = shared;
    }
  }
  LOFT_CHECK(best != nullptr);
  best->fed.resize(best_shared);
  if (best->cache) best->cache->truncate(int64_t(best_shared));
  return *best;
}

void Engine::State::start(Sequence& s) {
  s.started = Clock::now();
  Place& place = choose_place(s);
  const int64_t first = s.n_prompt() + std::min(s.max_new, kFirstAnswerRoom);
  if (!place.cache) {
    place.cache = std::make_unique<KvCache>(*parts.backend, cache_shape, first);
  } else {
    place.cache->reserve(first);
  }
  place.is_taken = true;
  s.place = &place;
  s.cached_tokens = place.cache->n_tokens();
}

void Engine::State::admit() {
  const auto n_free = std::count_if(places.begin(), places.end(), [](const Place& p) { return !p.is_taken; });
  for (auto i = n_free; i > 0 && !waiting.empty();) {
    std::unique_ptr<Sequence> s = std::move(waiting.front());
    waiting.pop_front();
    if (s->needs_only_counting()) {
      finish(*s, FinishReason::Length);
      continue;
    }
    try {
      start(*s);
      running.push_back(std::move(s));
      --i;
    } catch (const Error& e) {
      finish(*s, FinishReason::Error, Failure{e.code(), e.what()});
    }
  }
}

// Every decoding sequence has room for its next row; a prompt has had it from the start.
void Engine::State::make_room() {
  for (auto& s : running) {
    const auto n = int64_t(s->tokens.size());
    if (n <= s->place->cache->capacity()) continue;
    try {
      s->place->cache->reserve(n);
    } catch (const Error& e) {
      finish(*s, FinishReason::Error, Failure{e.code(), e.what()});
    }
  }
  drop_finished();
}

void Engine::State::make_plan() {
  needs.clear();
  for (const auto& s : running) {
    needs.push_back({.n_pending = int64_t(s->tokens.size()) - s->n_fed(), .is_decoding = s->is_decoding});
  }
  plan_step(needs, limits, plan);
  batch_tokens.clear();
  batch_sequences.clear();
  logit_rows.clear();
  for (const PlannedRows& p : plan) {
    Sequence& s = *running[p.index];
    const auto first_row = int64_t(batch_tokens.size());
    const auto begin = s.tokens.begin() + s.n_fed();
    batch_tokens.insert(batch_tokens.end(), begin, begin + p.n_rows);
    batch_sequences.push_back({.cache = s.place->cache.get(), .first_row = first_row, .n_rows = p.n_rows});
    if (p.wants_logits) logit_rows.push_back(int32_t(first_row + p.n_rows - 1));
  }
}

// What was allocated since the step before (caches of new sequences, longer ones) belongs to this step's phase.
void Engine::State::note_memory(bool is_prefill) {
  const MemoryStats memory = parts.backend->memory();
  MemoryPhase& phase = is_prefill ? stats.prefill : stats.decode;
  phase = grown(phase, memory);
  if (is_prefill) phase.outside_bytes = std::max(phase.outside_bytes, outside_bytes(read_process_memory(), memory));
  parts.backend->reset_peak();
}

bool Engine::State::forward(Tensor& logits) {
  const auto begin = Clock::now();
  try {
    logits = parts.model->forward({.tokens = batch_tokens, .sequences = batch_sequences, .logit_rows = logit_rows});
    parts.backend->synchronize();
  } catch (const Error& e) {
    for (const PlannedRows& p : plan) finish(*running[p.index], FinishReason::Error, Failure{e.code(), e.what()});
    return false;
  }
  stats.forward_ms += ms_between(begin, Clock::now());
  stats.n_steps += 1;
  stats.n_rows += batch_tokens.size();
  bool is_prefill = false;
  for (const PlannedRows& p : plan) {
    Sequence& s = *running[p.index];
    s.place->fed.insert(s.place->fed.end(), s.tokens.begin() + int64_t(s.place->fed.size()),
                        s.tokens.begin() + s.n_fed());
    is_prefill = is_prefill || !s.is_decoding;
    s.decode_steps += s.is_decoding ? 1 : 0;
  }
  note_memory(is_prefill);
  return true;
}

void Engine::State::take_logits(Sequence& s, const Tensor& logits, int64_t i_row) {
  const Tensor source = slice_rows(logits, i_row, i_row + 1);
  raw_row.resize(size_t(vocab_size) * dtype_bytes(logits.dtype));
  parts.backend->download(raw_row.data(), source.data, raw_row.size());
  row.resize(size_t(vocab_size));
  widen_logits(raw_row.data(), logits.dtype, row);
  if (!s.is_decoding) {
    s.is_decoding = true;
    s.first_logits = Clock::now();
  }
  if (const auto bad = find_non_finite(row)) {
    finish(s, FinishReason::Error,
           Failure{Code::NonFinite, fmt::format("the logit of token {} at position {} is {}, wanted a finite number",
                                                *bad, s.tokens.size() - 1, row[size_t(*bad)])});
    return;
  }
  if (s.max_new == 0) {
    StepEvent& event = event_of(s);
    event.finish.emplace().next = row_logprobs(row, 0, *s.request.top_logprobs).top;
    finish(s, FinishReason::Length);
    return;
  }
  // Logprobs are those of the model: they are read before the samplers change the row, for a token known only
  // afterwards.
  std::vector<float> untouched;
  if (s.request.top_logprobs) untouched = row;
  const int32_t id =
      sample_token(s.request.sampling, {.tokens = s.tokens, .n_prompt = s.n_prompt(), .banned = banned}, row, scratch);
  std::optional<RowLogprobs> logprobs;
  if (s.request.top_logprobs) logprobs = row_logprobs(untouched, id, *s.request.top_logprobs);
  accept(s, id, std::move(logprobs));
}

void Engine::State::accept(Sequence& s, int32_t id, std::optional<RowLogprobs> logprobs) {
  if (!s.request.ignore_stop_ids && std::binary_search(options.stop_ids.begin(), options.stop_ids.end(), id)) {
    finish(s, FinishReason::Stop);
    return;
  }
  s.tokens.push_back(id);
  StepEvent& event = event_of(s);
  event.token = GeneratedToken{.id = id, .logprobs = std::move(logprobs)};
  event.text += s.stop.push(s.decoder.push(id));
  if (s.stop.matched()) {
    finish(s, FinishReason::Stop);
  } else if (s.n_generated() >= s.max_new) {
    finish(s, FinishReason::Length);
  }
}

int64_t choose_context(int64_t asked, const ModelConfig& config) {
  const int64_t limit = config.max_positions > 0 ? config.max_positions : kDefaultContext;
  if (asked > limit) {
    fail(Code::BadRequest, "a context of {} tokens is asked for, the model was made for at most {}", asked, limit);
  }
  return asked > 0 ? asked : std::min(limit, kDefaultContext);
}

Engine::Engine(EngineParts parts, const EngineOptions& options) : state_(std::make_unique<State>()) {
  State& st = *state_;
  st.parts = std::move(parts);
  st.options = options;
  const ModelConfig& config = st.parts.model->config();
  st.vocab_size = config.vocab_size;
  st.options.context = choose_context(options.context, config);
  std::sort(st.options.stop_ids.begin(), st.options.stop_ids.end());
  const int64_t chunk = std::min(st.options.prefill_chunk, st.options.context);
  st.limits = {.max_rows = std::max(chunk, options.parallel), .prefill_chunk = chunk, .prefill_chunk_shared = 256};
  st.cache_shape = st.parts.model->kv_shape(options.kv_dtype, st.options.context, chunk);
  st.places.resize(size_t(options.parallel));
  for (int64_t id = 0; id < st.vocab_size; ++id) {
    if (!st.parts.tokenizer->piece(int32_t(id))) st.banned.push_back(int32_t(id));
  }
  if (int64_t(st.banned.size()) == st.vocab_size)
    fail(Code::Corrupt, "no id of the model has a piece in the tokenizer");
  const MemoryStats memory = st.parts.backend->memory();
  // Scratch is handed out, but not touched yet.
  st.stats.load = grown({.outside_bytes = read_process_memory().anonymous_bytes}, memory);
  st.parts.backend->reset_peak();
}

Engine::~Engine() = default;

SequenceId Engine::submit(Request request) {
  State& st = *state_;
  const auto n_prompt = int64_t(request.prompt.size());
  if (n_prompt == 0) fail(Code::BadRequest, "the prompt is empty, wanted at least one token");
  if (n_prompt > st.options.context) {
    fail(Code::BadRequest, "the prompt has {} tokens, the context holds {}", n_prompt, st.options.context);
  }
  for (int32_t id : request.prompt) {
    if (id < 0 || id >= st.vocab_size) {
      fail(Code::BadRequest, "the prompt holds token id {}, outside the vocabulary of {} ids", id, st.vocab_size);
    }
  }
  if (request.max_tokens && *request.max_tokens < 0) {
    fail(Code::BadRequest, "max_tokens must be 0 or more, got {}", *request.max_tokens);
  }
  if (request.top_logprobs && (*request.top_logprobs < 0 || *request.top_logprobs > kMaxTopLogprobs)) {
    fail(Code::BadRequest, "top_logprobs must be between 0 and {}, got {}", kMaxTopLogprobs, *request.top_logprobs);
  }
  check_sampler_params(request.sampling, st.vocab_size);
  check_stop_strings(request.stop);

  const int64_t room = st.options.context - n_prompt;
  auto s = std::make_unique<Sequence>(st.next_id++, std::move(request), *st.parts.tokenizer);
  s->max_new = std::min(s->request.max_tokens.value_or(room), room);
  s->tokens = s->request.prompt;
  s->tokens.reserve(size_t(n_prompt + s->max_new));
  s->submitted = Clock::now();
  st.waiting.push_back(std::move(s));
  return st.waiting.back()->id;
}

std::span<const StepEvent> Engine::step() {
  State& st = *state_;
  st.events.clear();
  st.end_cancelled();
  st.admit();
  st.make_room();
  st.make_plan();
  if (!st.plan.empty()) {
    Tensor logits;
    if (st.forward(logits)) {
      const auto begin = Clock::now();
      int64_t i_row = 0;
      for (const PlannedRows& p : st.plan) {
        Sequence& s = *st.running[p.index];
        st.event_of(s).prompt_done = std::min(s.n_fed(), s.n_prompt());
        if (p.wants_logits) st.take_logits(s, logits, i_row++);
      }
      st.stats.sample_ms += ms_between(begin, Clock::now());
    }
  }
  st.drop_finished();
  return st.events;
}

bool Engine::cancel(SequenceId id) {
  State& st = *state_;
  const auto mark = [&](auto& sequences) {
    for (auto& s : sequences) {
      if (s->id != id) continue;
      s->is_cancelled = true;
      return true;
    }
    return false;
  };
  return mark(st.running) || mark(st.waiting);
}

bool Engine::is_idle() const {
  return state_->running.empty() && state_->waiting.empty();
}
int64_t Engine::n_waiting() const {
  return int64_t(state_->waiting.size());
}
int64_t Engine::n_running() const {
  return int64_t(state_->running.size());
}
int64_t Engine::context() const {
  return state_->options.context;
}
const Tokenizer& Engine::tokenizer() const {
  return *state_->parts.tokenizer;
}
const Model& Engine::model() const {
  return *state_->parts.model;
}
Backend& Engine::backend() {
  return *state_->parts.backend;
}
QmmStats Engine::qmm_stats() const {
  return state_->parts.model->qmm_stats();
}
void Engine::clear_caches() {
  state_->parts.model->clear_caches();
  state_->parts.backend->free_cached();
}

void Engine::set_load(double load_ms, const MemoryPlan& plan) {
  state_->stats.load_ms = load_ms;
  state_->stats.plan = plan;
}
const EngineStats& Engine::stats() const {
  return state_->stats;
}
std::span<const int32_t> Engine::stop_ids() const {
  return state_->options.stop_ids;
}

}  // namespace loft
