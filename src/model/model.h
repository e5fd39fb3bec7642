// model: what the engine knows of a model. One forward pass takes the rows of several sequences at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "ops/linear.h"

namespace loft {

/// Rows of one sequence in a batch: tokens [first_row, first_row + n_rows) continue after cache->n_tokens() positions.
struct BatchSequence {
  KvCache* cache = nullptr;
  int64_t first_row = 0;
  int64_t n_rows = 0;
};

/// What measuring tools see of a pass under way; an empty function is not called. Tensors are valid during the call.
struct ForwardTaps {
  /// Logits [r, vocab_size] of logit_rows [first, first + r), block after block. With it a pass may want more rows than
  /// ModelOptions::max_logit_rows, which is then the size of a block.
  std::function<void(int64_t first, const Tensor& logits)> logits{};
  /// The residual stream [m, hidden_size] behind layer i; -1: behind the embedding.
  std::function<void(int64_t i, const Tensor& hidden)> layer{};
};

struct Batch {
  std::span<const int32_t> tokens;           // [m], ids in [0, vocab_size)
  std::span<const BatchSequence> sequences;  // in row order, covering all rows
  std::span<const int32_t> logit_rows;       // rows whose logits are wanted, ascending; lm_head runs on these only
  const ForwardTaps* taps = nullptr;
};

/// Caches of n_sequences sequences; 0: none are planned.
struct KvPlan {
  int64_t n_sequences = 0;
  int64_t max_tokens = 1;
  int64_t max_chunk = 1;
  DType dtype = DType::F16;
};

struct ModelOptions {
  DType dtype = DType::F32;       // activations and logits
  int64_t max_rows = 2048;        // most rows of one forward pass
  int64_t max_logit_rows = 2048;  // most logit rows of one forward pass
  DequantCacheOptions dequant_cache{};
  // The keys and values that will be allocated for it later; only asked whether they fit beside the weights.
  KvPlan kv_plan = {};
};

/// const once loaded but for its scratch: one forward at a time.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual KvCacheShape kv_shape(DType kv_dtype, int64_t max_tokens, int64_t max_chunk) const = 0;
  /// Runs all rows, stores their keys and values, advances each cache, and returns logits [n_logit_rows, vocab_size] of
  /// dtype ModelOptions::dtype in memory of the model, valid until the next call. Where they go to a tap: its last
  /// block.
  virtual Tensor forward(const Batch& batch) = 0;
  /// Quantized products so far, and the state of the cache of dequantized weights.
  virtual QmmStats qmm_stats() const = 0;
  /// Frees what only speed needs: the dequantized weights.
  virtual void clear_caches() {}
};

struct MemoryPlan;  // model/memory_plan.h

/// Opens a checkpoint folder. `plan`, if given, gets what the model takes. Errors: NotFound, Corrupt, Unsupported
/// (names the file, what was found, what was wanted), OutOfMemory before weights are read.
std::unique_ptr<Model> load_model(const std::filesystem::path& folder, Backend& backend, const ModelOptions& options,
                                  MemoryPlan* plan = nullptr);

}  // namespace loft
