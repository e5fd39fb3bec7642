// measure: the bytes and operations that a test asks for, from shapes alone: what rates are divided by and held
// against.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/dtype.h"
#include "measure/bench_plan.h"
#include "model/config.h"

namespace loft {

/// What one forward reads and multiplies, a sum over the modules of a checkpoint.
struct ModelWork {
  std::string model_type{};
  std::string quant{};         // the format of most weight bytes: "affine4g64"
  uint64_t file_bytes = 0;     // of all modules
  uint64_t n_weights = 0;      // parameters
  uint64_t body_bytes = 0;     // read by every forward: words, scales, biases, norms; without the head
  uint64_t head_bytes = 0;     // read by a forward that wants logits
  uint64_t body_mul_adds = 0;  // of one row
  uint64_t head_mul_adds = 0;  // of one logit row
  ModelConfig config{};
};
/// Reads headers only. Errors: those of reading them.
ModelWork model_work(const std::filesystem::path& folder);

/// Of all sequences together. bytes: every weight once a forward, and each position's keys and values that a forward
/// can see once a sequence.
struct TestWork {
  double bytes = 0;
  double flops = 0;  // 2 m n k of all products; attention is not counted
};
TestWork test_work(const ModelWork& work, const BenchTest& test, int64_t n_batch, int64_t n_parallel, DType kv_dtype);

}  // namespace loft
