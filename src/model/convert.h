// model: conversion to an MLX checkpoint folder. What enters: a GGUF file, or a folder of dense safetensors in Hugging
// Face form. What leaves: weights, config.json, tokenizer files and generation_config.json, and a report of what is
// exact. Mapping and vectors: the tables in quant/gguf_blocks.h; one row an architecture in convert_gguf.cc.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace loft {

/// How scales and biases of Q4_K, Q5_K and requantized tensors are stored. F16 is what MLX's own quantizer writes and
/// may round; F32 keeps Q4_K and Q5_K exact at one more bit a weight. Types that are exact in f16 stay in f16 either
/// way.
enum class ScaleDType : uint8_t { F16, F32 };

struct ConvertRequest {
  std::filesystem::path src;  // a GGUF file, or a folder with config.json and model*.safetensors
  std::filesystem::path dst;  // must not exist; appears only when all of it is written
  ScaleDType scales = ScaleDType::F16;
  std::optional<DType> dtype;  // F32, F16 or BF16: casts the float tensors of a dense source. Unset: kept as they are
};

enum class Exactness : uint8_t { Exact, Rounded, Requantized };
const char* exactness_name(Exactness exactness);  ///< "exact", "rounded", "requantized"

/// All tensors that went the same way. Errors are differences of single weights against the source's own values.
struct ConvertRow {
  std::string source;  // "Q4_1", "Q6_K", "BF16", ...
  std::string target;  // "affine4g32 scales f16", "dense f32", ...
  Exactness exactness = Exactness::Exact;
  uint64_t n_tensors = 0;
  uint64_t n_weights = 0;
  double max_error = 0;  // largest absolute difference; 0 when exact
  double max_relative_error =
      0;                     // the largest difference over the largest magnitude in its group of 32 (a row, if dense)
  std::string worst_tensor;  // where max_error was found; empty when exact
};

struct ConvertReport {
  std::string source_kind;         // "gguf llama", "safetensors llama", ...
  std::string model_type;          // as written to config.json
  std::vector<ConvertRow> rows;    // exact first, then rounded, then requantized
  std::vector<std::string> notes;  // one line each: what was assumed, left out or rebuilt
  uint64_t n_tensors = 0;          // in the written checkpoint
  uint64_t bytes_written = 0;      // of weights
};

/// Called with the source bytes done and the total, from the calling thread; may be empty.
using ProgressFn = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

/// Converts request.src into the new folder request.dst. Errors: BadRequest (dst exists, or cannot be made; a dtype
/// that is no float), NotFound, Corrupt and Unsupported about the source, naming tensor or key; OutOfMemory (disk
/// full). After an error nothing of dst, nor of its temporary sibling, is left.
ConvertReport convert_checkpoint(const ConvertRequest& request, const ProgressFn& progress = {});

/// The report as lines of text for a person, each ended by a newline.
std::string describe(const ConvertReport& report);

}  // namespace loft
