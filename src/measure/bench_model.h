// measure: a model opened to be measured: the parts of an engine without its scheduler, so that a pass is exactly the
// forwards that a test names. A folder, options and sizes enter; a loaded model with its memory and facts leaves.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/op_timer.h"
#include "core/options.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/memory_plan.h"

namespace loft {

/// Sizes that the tests of one load need.
struct BenchSizes {
  int64_t n_batch = 2048;    // most rows of one prefill forward
  int64_t n_parallel = 1;    // sequences decoded together
  int64_t max_tokens = 640;  // most tokens of a sequence
  bool operator==(const BenchSizes&) const = default;
};

struct BenchModel {
  EngineParts parts{};
  BenchSizes sizes{};
  DType kv = DType::F16;
  SamplerParams sampling{};
  double load_ms = 0;
  MemoryPhase load{};        // after load
  OpTimer* timer = nullptr;  // the backend itself, with --kernels
};

/// What loading and the largest test will take, from config and headers alone.
struct MemoryEstimate {
  MemoryPlan plan{};
  uint64_t dense_bytes = 0;  // the largest matrix dequantized whole; 0 where panels are used
  uint64_t total() const { return plan.total_bytes() + dense_bytes; }
};
/// Errors: those of reading config and headers. No tensor data is read.
MemoryEstimate estimate_memory(const std::filesystem::path& folder, const Options& options, const BenchSizes& sizes);

/// Errors: those of loading. Sampling is greedy with seed 0 unless the options say otherwise.
BenchModel open_bench_model(const std::filesystem::path& folder, const Options& options, const BenchSizes& sizes);

/// Exactly n ids: the tokenizer's ids of `text` (an own built-in text where empty), begun as a prompt and then repeated
/// without what a prompt begins with. Deterministic. Error: BadRequest for a text without tokens.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text, int64_t n);
/// n seeded ids that have a piece and are not special, all below vocab_size.
std::vector<int32_t> random_ids(const Tokenizer& tokenizer, int64_t vocab_size, uint64_t seed, int64_t n);

}  // namespace loft
