// model: the table of shapes for synth. Sizes are those of the published config.json files.
#include "model/synth.h"

namespace loft {
namespace {

constexpr SynthShape kShapes[] = {
    {"smollm2-135m", R"({"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
      "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192,
      "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": true})"},
    {"llama-3.2-1b", R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192,
      "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}, "tie_word_embeddings": true})"},
    {"llama-3.1-8b", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}, "tie_word_embeddings": false})"},
    {"gemma-3-270m", R"({"model_type": "gemma3_text", "hidden_size": 640, "num_hidden_layers": 18,
      "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048,
      "vocab_size": 262144, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
      "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 256, "sliding_window": 512,
      "sliding_window_pattern": 6, "tie_word_embeddings": true})"},
    {"gemma-3-1b", R"({"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26,
      "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 6912,
      "vocab_size": 262144, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
      "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 256, "sliding_window": 512,
      "sliding_window_pattern": 6, "tie_word_embeddings": true})"},
    {"gemma-3-4b", R"({"model_type": "gemma3", "vocab_size": 262208, "text_config": {"model_type": "gemma3_text",
      "hidden_size": 2560, "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
      "head_dim": 256, "intermediate_size": 10240, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
      "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear",
      "factor": 8.0}, "query_pre_attn_scalar": 256, "sliding_window": 1024, "sliding_window_pattern": 6}})"},
};

}  // namespace

std::span<const SynthShape> synth_shapes() {
  return kShapes;
}

std::string synth_shape_names() {
  std::string text;
  for (const SynthShape& row : kShapes) text += std::string(text.empty() ? "" : ", ") + row.name;
  return text;
}

}  // namespace loft
