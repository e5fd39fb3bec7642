// model: `loft quantize`. What enters: an MLX checkpoint folder, dense or quantized in another way. What leaves: a new
// folder with quantized weights, its config.json and copies of the small files. Formats: docs/format_mlx_affine.md.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "model/convert.h"
#include "model/summary.h"
#include "quant/format.h"

namespace loft {

struct QuantizeRequest {
  std::filesystem::path src;  // folder with config.json and model*.safetensors
  std::filesystem::path dst;  // must not exist; appears only when all of it is written
  QuantFormat format{.kind = QuantKind::Affine, .bits = 4, .group = 64};
  std::string recipe;          // a name of quantize_recipes(), or empty; affine only, gives each module its bits
  std::optional<DType> dtype;  // F32, F16 or BF16 of scales, biases and what stays dense; unset: config.json's
                               // torch_dtype (or text_config.dtype), else as stored
};

struct QuantizeReport {
  std::vector<FormatCount> formats;  // of what was written, dense modules too; most bytes first
  double bits_per_weight = 0;        // bytes of all weights * 8 over their number
  uint64_t bytes_written = 0;        // of weights
  std::vector<std::string> notes;    // one line each
};

/// "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6": low bits everywhere but for the head and, in a part of the
/// layers, v_proj and down_proj. The same choice as mlx-lm's of that name.
std::span<const char* const> quantize_recipes();

/// Quantizes what mlx_lm's convert -q quantizes (embeddings, linear layers and the head, where the inputs divide by the
/// group) to the same bytes; norms and additive biases stay dense. config.json is mlx-lm's too: sorted keys, one dict
/// under `quantization` and `quantization_config`, an entry for each module with a recipe. A module that already has
/// its format is copied; one in another format is decoded in f32 and rounded to the float type first.
/// progress gets bytes of source weights, from the calling thread.
///
/// Errors: BadRequest (dst exists or cannot be made, a dtype that is no float, an unknown recipe or one with another
/// mode than affine); Unsupported (format, model_type); NotFound and Corrupt about src; NonFinite (a weight is NaN or
/// infinite, also by the cast: names it); OutOfMemory (disk full). After an error nothing of dst is left.
QuantizeReport quantize_checkpoint(const QuantizeRequest& request, const ProgressFn& progress = {});

}  // namespace loft
