// model: Llama (Touvron et al. 2023, arXiv 2302.13971; Llama 3 rope) and Mistral, which is Llama with a window.
// What enters: a config and its weights. What leaves: a Model.
#include "model/llama.h"

#include "core/error.h"
#include "model/blocks.h"
#include "model/weights.h"

namespace loft {
namespace {

struct Layer {
  Tensor input_norm, post_attention_norm;  // [hidden]
  Attention attention;
  Mlp mlp;
};

std::string layer_path(const ModelConfig& config, int64_t i) {
  return config.tensor_prefix + "model.layers." + std::to_string(i);
}

class Llama final : public Model {
 public:
  Llama(const ModelConfig& config, Weights&& weights, const ModelOptions& options)
      : config_(config), weights_(std::move(weights)), backend_(weights_.backend()) {
    const std::string& prefix = config_.tensor_prefix;
    const float eps = float(config_.rms_norm_eps);
    rope_ = make_rope(backend_, config_.rope, config_.head_dim);
    embedding_ = weights_.table(prefix + "model.embed_tokens");
    layers_.resize(size_t(config_.n_layers));
    for (int64_t i = 0; i < config_.n_layers; ++i) {
      const std::string path = layer_path(config_, i);
      Layer& layer = layers_[size_t(i)];
      layer.input_norm = weights_.norm(path + ".input_layernorm");
      layer.attention = take_attention(weights_, config_, path);
      layer.attention.window = config_.layer_windows[size_t(i)];
      layer.attention.rope = &rope_;
      layer.post_attention_norm = weights_.norm(path + ".post_attention_layernorm");
      layer.mlp = take_mlp(weights_, path, Activation::Silu);
    }
    head_ = {.norm = weights_.norm(prefix + "model.norm"),
             .linear = weights_.head(prefix + "lm_head", prefix + "model.embed_tokens"),
             .norm_eps = eps};
    LinearPlan plan;
    for (Layer& l : layers_) prepare_blocks(backend_, plan, l.attention, l.mlp, options);
    prepare_head(backend_, plan, head_.linear, options);
    scratch_ = make_scratch(backend_, config_, options, plan);
  }

  const ModelConfig& config() const override { return config_; }
  QmmStats qmm_stats() const override { return linear_stats(backend_, scratch_.workspace); }
  void clear_caches() override { scratch_.workspace.cache->clear(); }
  KvCacheShape kv_shape(DType kv_dtype, int64_t max_tokens, int64_t max_chunk) const override {
    return kv_shape_of(config_, kv_dtype, max_tokens, max_chunk);
  }

  Tensor forward(const Batch& batch) override {
    Step step = begin_step(backend_, scratch_, batch, config_);
    const float eps = float(config_.rms_norm_eps);
    backend_.embed(step.ids, embedding_, packed_table(embedding_, head_), 1.0f, step.hidden);
    tap_layer(step, -1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = layers_[i];
      norm_block(step, step.hidden, layer.input_norm, eps, 0, step.normed);
      attention_block(step, int(i), layer.attention);
      backend_.add(step.hidden, step.branch, step.hidden);
      norm_block(step, step.hidden, layer.post_attention_norm, eps, 0, step.normed);
      mlp_block(step, layer.mlp);
      backend_.add(step.hidden, step.branch, step.hidden);
      tap_layer(step, int64_t(i));
    }
    return end_step(step, head_);
  }

 private:
  ModelConfig config_;
  Weights weights_;
  Backend& backend_;
  Rope rope_;
  QuantWeight embedding_;  // [vocab, hidden]
  std::vector<Layer> layers_;
  Head head_;
  Scratch scratch_;
};

}  // namespace

void finish_llama_config(ModelConfig& config, std::string_view where) {
  if (!config.activation.empty() && config.activation != "silu" && config.activation != "swish") {
    fail(Code::Unsupported, "{}.hidden_act: \"{}\" is not implemented for {} (silu is)", where, config.activation,
         config.model_type);
  }
  // Without layer_types a Llama has no window, whatever sliding_window says.
  if (config.layer_windows.empty()) config.layer_windows.assign(size_t(config.n_layers), 0);
}

void finish_mistral_config(ModelConfig& config, std::string_view where) {
  if (config.layer_windows.empty()) config.layer_windows.assign(size_t(config.n_layers), config.sliding_window);
  finish_llama_config(config, where);
}

std::vector<ModuleShape> llama_modules(const ModelConfig& config) {
  const std::string& prefix = config.tensor_prefix;
  std::vector<ModuleShape> out{
      {prefix + "model.embed_tokens", ModuleKind::Embedding, config.vocab_size, config.hidden_size, false}};
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const std::string layer = layer_path(config, i);
    out.push_back({layer + ".input_layernorm", ModuleKind::Norm, config.hidden_size, 0, false});
    for (const ModuleShape& m : attention_modules(config, layer)) out.push_back(m);
    out.push_back({layer + ".post_attention_layernorm", ModuleKind::Norm, config.hidden_size, 0, false});
    for (const ModuleShape& m : mlp_modules(config, layer)) out.push_back(m);
  }
  out.push_back({prefix + "model.norm", ModuleKind::Norm, config.hidden_size, 0, false});
  out.push_back({prefix + "lm_head", ModuleKind::Head, config.vocab_size, config.hidden_size, false});
  return out;
}

std::unique_ptr<Model> make_llama(const ModelConfig& config, Weights&& weights, const ModelOptions& options) {
  return std::make_unique<Llama>(config, std::move(weights), options);
}

}  // namespace loft
