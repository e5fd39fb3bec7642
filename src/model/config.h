// model: config.json as a struct. Nested configs (text_config) are flattened, every rope spelling is resolved, and the
// quantization dict is kept per module path by the rules of MLX (docs/format_mlx_affine.md names them).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quant/format.h"

namespace loft {

enum class RopeType : uint8_t { Default, Linear, Llama3, Yarn, Dynamic };

struct RopeConfig {
  RopeType type = RopeType::Default;
  double theta = 10000.0;
  std::string theta_source;  // "rope_parameters", "rope_theta" or "family default": shown at load
  double factor = 1.0;
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  double original_max_positions = 0;  // llama3, yarn
};

/// The "quantization" dict: global settings and the entries for module paths (an object, false = dense, true = global).
struct QuantConfig {
  std::optional<QuantFormat> global;  // nullopt: the checkpoint has no dict
  std::map<std::string, std::variant<bool, QuantFormat>> modules;
};

struct ModelConfig {
  std::string model_type;    // as in the innermost config, e.g. "llama", "gemma3_text"
  std::string wrapper_type;  // "gemma3" when text_config was unpacked; else empty
  int64_t hidden_size = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;  // max_position_embeddings
  double rms_norm_eps = 1e-6;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<bool> tie_word_embeddings;
  RopeConfig rope;
  // Gemma 3; other families leave them at 0.
  RopeConfig local_rope;
  int64_t sliding_window = 0;
  int64_t sliding_window_pattern = 0;  // every n-th layer is global
  double query_pre_attn_scalar = 0;
  double final_logit_softcap = 0;
  double attn_logit_softcap = 0;
  QuantConfig quantization;
  std::vector<int64_t> eos_token_ids;  // config.json's eos_token_id (one or a list)
  std::optional<int64_t> bos_token_id;
};

/// Reads and checks config.json of a folder. Errors: NotFound, Corrupt (value out of range, wrong type), Unsupported
/// (unknown model_type: names it, the file and the supported ones).
ModelConfig read_config(const std::filesystem::path& folder);
ModelConfig parse_config(std::string_view json, std::string_view where);

}  // namespace loft
