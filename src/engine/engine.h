// engine: the public face: open, submit, step, cancel. One thread drives it; a server gives it a thread of its own and
// hands requests over. Requests enter, events leave; models, caches and the batch stay inside.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/sequence.h"
#include "engine/stats.h"
#include "model/model.h"
#include "qmm/stats.h"
#include "text/tokenizer.h"

namespace loft {

struct EngineOptions {
  int64_t context = 0;           // tokens a sequence may hold; 0: the model's limit, at most kDefaultContext
  int64_t parallel = 1;          // sequences that run at once; more wait
  int64_t prefill_chunk = 2048;  // rows of one forward pass
  DType kv_dtype = DType::F16;
  std::vector<int32_t> stop_ids = {};  // the union of all sources (generation_config.h)
};
inline constexpr int64_t kDefaultContext = 8192;
/// Alternatives told per token, the limit of OpenAI's schema.
inline constexpr int64_t kMaxTopLogprobs = 20;

/// The context in force: `asked` tokens, or for 0 the model's limit, at most kDefaultContext. Error: BadRequest when
/// more is asked for than the model was made for (both numbers are told).
int64_t choose_context(int64_t asked, const ModelConfig& config);

/// The parts of an engine. Members die in reverse order: the model before its backend.
struct EngineParts {
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
};

class Engine {
 public:
  /// Errors: BadRequest as of choose_context; Corrupt when the tokenizer has no piece for any id of the model.
  Engine(EngineParts parts, const EngineOptions& options);
  ~Engine();

  /// Checks the request and queues it. Errors: BadRequest for a prompt that is empty, holds an id outside the
  /// vocabulary or is longer than the context (both numbers are told), and for settings out of range.
  SequenceId submit(Request request);

  /// Takes waiting sequences into free places, runs one forward pass and samples. The events are valid until the next
  /// call; none when idle. An error ends the sequence that it struck (a device error: all that took part), as an event.
  std::span<const StepEvent> step();

  /// The sequence ends with FinishReason::Cancelled at the next step, which also gives its held-back text. False when
  /// the id is unknown or done.
  bool cancel(SequenceId id);

  bool is_idle() const;
  int64_t n_waiting() const;
  int64_t n_running() const;
  int64_t context() const;
  const Tokenizer& tokenizer() const;
  const Model& model() const;
  Backend& backend();
  const EngineStats& stats() const;
  /// Products by route and kernel row since the engine was opened.
  QmmStats qmm_stats() const;
  /// Frees the dequantized weights and the freed buffers that are kept for speed.
  void clear_caches();
  /// What loading took, for stats().
  void set_load(double load_ms, const MemoryPlan& plan);
  std::span<const int32_t> stop_ids() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace loft
