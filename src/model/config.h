// model: config.json as a struct. Nested configs (text_config) are flattened, every rope spelling is resolved, and the
// quantization dict is kept per module path by the rules of MLX: an entry for a path, else what the tensors say.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quant/format.h"

namespace loft {

enum class RopeType : uint8_t { Default, Linear, Llama3, Yarn };
const char* rope_type_name(RopeType type);  ///< the word of config.json: "default", "linear", "llama3", "yarn"

struct RopeConfig {
  RopeType type = RopeType::Default;
  double theta = 10000.0;
  std::string theta_source;  // the key that gave theta, or "family default": shown at load
  double factor = 1.0;
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  double original_max_positions = 0;  // llama3, yarn
  double beta_fast = 32.0;            // yarn
  double beta_slow = 1.0;             // yarn
  double mscale = 1.0;                // yarn
  double mscale_all_dim = 0.0;        // yarn
};

/// The "quantization" dict: global settings and the entries for module paths (an object, false = dense, true = global).
struct QuantConfig {
  std::optional<QuantFormat> global;  // nullopt: the checkpoint has no dict
  std::map<std::string, std::variant<bool, QuantFormat>> modules;
};

struct ModelConfig {
  std::string model_type;     // as in the innermost config, e.g. "llama", "gemma3_text"
  std::string wrapper_type;   // "gemma3" when text_config was unpacked; else empty
  std::string tensor_prefix;  // before every module path: "language_model." inside a wrapper; else empty
  int64_t hidden_size = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;     // rows of the embedding; may exceed what the tokenizer knows
  int64_t max_positions = 0;  // max_position_embeddings
  double rms_norm_eps = 1e-6;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<bool> tie_word_embeddings;
  std::string activation;  // hidden_act or hidden_activation; empty: the family's own
  RopeConfig rope;
  std::vector<int64_t> layer_windows;  // [n_layers]; 0: full attention, else a row sees itself and window - 1 before it
  // The next ones matter where a family uses them; 0 when config.json has none.
  RopeConfig local_rope;  // rope of sliding layers (Gemma 3)
  int64_t sliding_window = 0;
  int64_t sliding_window_pattern = 0;  // every n-th layer is full (Gemma 3)
  double query_pre_attn_scalar = 0;
  double final_logit_softcap = 0;
  double attn_logit_softcap = 0;
  QuantConfig quantization;
  std::vector<int64_t> eos_token_ids;  // config.json's eos_token_id (one or a list), outer and inner config together
  std::optional<int64_t> bos_token_id;
};

/// Reads and checks config.json of a folder. Errors: NotFound; Corrupt (value out of range, wrong type); Unsupported
/// (a model_type, rope type or activation that loft lacks, or code named by the checkpoint: all by name).
ModelConfig read_config(const std::filesystem::path& folder);
/// The same from text; `where` stands for the file in messages.
ModelConfig parse_config(std::string_view json, std::string_view where);

}  // namespace loft
