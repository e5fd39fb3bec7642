// model: seeded checkpoints of real or custom shapes. What enters: a shape or a config, a format, a seed. What leaves:
// a folder as mlx_lm.convert would write it (weights, config.json, a byte-level tokenizer.json), streamed to disk.
// Codes are random and scales are chosen so that every layer keeps the size of its input; the text it makes is noise.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <variant>

#include "core/dtype.h"
#include "quant/format.h"

namespace loft {

/// One published model's sizes, as its config.json states them.
struct SynthShape {
  const char* name;
  const char* config_json;  // without quantization
};
std::span<const SynthShape> synth_shapes();
std::string synth_shape_names();  ///< "smollm2-135m, ..." for messages

struct SynthRequest {
  std::string shape;                                                      // name of a row; empty: config_json
  std::string config_json;                                                // a whole config without quantization
  QuantFormat format{.kind = QuantKind::Affine, .bits = 4, .group = 64};  // Dense: nothing is quantized
  DType dtype = DType::BF16;  // of norms, biases, dense weights and affine scales
  /// Modules that differ from `format`: written so, and as entries of the quantization dict (false: dense).
  std::map<std::string, std::variant<bool, QuantFormat>> modules;
  uint64_t seed = 1;
  uint64_t max_shard_bytes = uint64_t(5) << 30;
};

/// Writes the folder `dst`, which must not exist and appears only when all of it is written. A module whose inputs do
/// not divide by its group stays dense, as in MLX. Errors: BadRequest (unknown shape: names the known ones; dst
/// exists), Corrupt and Unsupported of parse_config, OutOfMemory (disk full). After an error nothing is left.
void synth_checkpoint(const SynthRequest& request, const std::filesystem::path& dst);

}  // namespace loft
