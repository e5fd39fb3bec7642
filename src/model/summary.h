// model: what a checkpoint is, from its headers alone: for `loft inspect`, the load line of the log, and bug reports.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"
#include "quant/format.h"

namespace loft {

struct FormatCount {
  QuantFormat format;
  int n_modules = 0;
  uint64_t n_weights = 0;
  uint64_t bytes = 0;  // codes, scales and biases
};

struct ModelSummary {
  ModelConfig config;
  std::vector<FormatCount> formats;  // of embeddings and linear layers, the one with most bytes first
  std::map<std::string, uint64_t>
      dtypes;  // bytes of float tensors (scales, norms, dense weights) by "bf16", "f32", ...
  uint64_t weight_bytes = 0;
  uint64_t n_weights = 0;  // parameters
  bool is_tied = false;
  uint64_t kv_bytes_per_token = 0;  // of full layers, with f16 keys and values: what grows with the context
  uint64_t kv_bytes_windows = 0;    // of sliding layers, once their windows are full
  std::vector<std::string> notes;   // dropped tensors, settings that differ from the global ones
};

/// Reads config.json and the headers of the shards. Errors as of read_config and Checkpoint.
ModelSummary summarize_checkpoint(const std::filesystem::path& folder);
ModelSummary summarize(const ModelConfig& config, const Checkpoint& checkpoint);
/// Label and value lines, in a fixed order.
std::vector<std::pair<std::string, std::string>> summary_lines(const ModelSummary& summary);

}  // namespace loft
