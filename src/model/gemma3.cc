// model: the language model of Gemma 3 (Gemma Team 2025, arXiv 2503.19786): sliding and full layers with own ropes,
// norms around both branches, norms of q and k, scaled embeddings. What enters: a config and its weights. What leaves:
// a Model.
#include "model/gemma3.h"

#include <cmath>

#include "core/error.h"
#include "model/blocks.h"
#include "model/weights.h"

namespace loft {
namespace {

constexpr float kNormOffset = 1.0f;  // checkpoints hold w, the norm multiplies by 1 + w

struct Layer {
  Tensor input_norm, post_attention_norm, pre_mlp_norm, post_mlp_norm;  // [hidden]
  Attention attention;
  Mlp mlp;
};

std::string layer_path(const ModelConfig& config, int64_t i) {
  return config.tensor_prefix + "model.layers." + std::to_string(i);
}

/// sqrt(hidden) rounded to bf16 whatever the activations are, as the published model computed it: 25.25 for 640.
float embedding_scale(const ModelConfig& config) {
  return bf16_to_f32(f32_to_bf16(float(std::sqrt(double(config.hidden_size)))));
}

class Gemma3 final : public Model {
 public:
  Gemma3(const ModelConfig& config, Weights&& weights, const ModelOptions& options)
      : config_(config), weights_(std::move(weights)), backend_(weights_.backend()) {
    const std::string& prefix = config_.tensor_prefix;
    full_rope_ = make_rope(backend_, config_.rope, config_.head_dim);
    sliding_rope_ = make_rope(backend_, config_.local_rope, config_.head_dim);
    embedding_ = weights_.table(prefix + "model.embed_tokens");
    layers_.resize(size_t(config_.n_layers));
    for (int64_t i = 0; i < config_.n_layers; ++i) take_layer(i);
    head_ = {.norm = weights_.norm(prefix + "model.norm"),
             .linear = weights_.head(prefix + "lm_head", prefix + "model.embed_tokens"),
             .norm_eps = float(config_.rms_norm_eps),
             .norm_offset = kNormOffset,
             .softcap = float(config_.final_logit_softcap)};
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
    backend_.embed(step.ids, embedding_, packed_table(embedding_, head_), embedding_scale(config_), step.hidden);
    tap_layer(step, -1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = layers_[i];
      norm(step, step.hidden, layer.input_norm, step.normed);
      attention_block(step, int(i), layer.attention);
      norm(step, step.branch, layer.post_attention_norm, step.branch);
      backend_.add(step.hidden, step.branch, step.hidden);
      norm(step, step.hidden, layer.pre_mlp_norm, step.normed);
      mlp_block(step, layer.mlp);
      norm(step, step.branch, layer.post_mlp_norm, step.branch);
      backend_.add(step.hidden, step.branch, step.hidden);
      tap_layer(step, int64_t(i));
    }
    return end_step(step, head_);
  }

 private:
  void norm(Step& step, const Tensor& x, const Tensor& weight, const Tensor& y) {
    norm_block(step, x, weight, float(config_.rms_norm_eps), kNormOffset, y);
  }

  void take_layer(int64_t i) {
    const std::string path = layer_path(config_, i);
    Layer& layer = layers_[size_t(i)];
    layer.input_norm = weights_.norm(path + ".input_layernorm");
    layer.post_attention_norm = weights_.norm(path + ".post_attention_layernorm");
    layer.pre_mlp_norm = weights_.norm(path + ".pre_feedforward_layernorm");
    layer.post_mlp_norm = weights_.norm(path + ".post_feedforward_layernorm");
    layer.mlp = take_mlp(weights_, path, Activation::GeluTanh);
    Attention& a = layer.attention;
    a = take_attention(weights_, config_, path);
    a.q_norm = weights_.norm(path + ".self_attn.q_norm");
    a.k_norm = weights_.norm(path + ".self_attn.k_norm");
    a.norm_eps = float(config_.rms_norm_eps);
    a.norm_offset = kNormOffset;
    a.scale = float(1.0 / std::sqrt(config_.query_pre_attn_scalar));
    a.softcap = float(config_.attn_logit_softcap);
    a.window = config_.layer_windows[size_t(i)];
    a.rope = a.window ? &sliding_rope_ : &full_rope_;
  }

  ModelConfig config_;
  Weights weights_;
  Backend& backend_;
  Rope full_rope_, sliding_rope_;
  QuantWeight embedding_;  // [vocab, hidden]
  std::vector<Layer> layers_;
  Head head_;
  Scratch scratch_;
};

}  // namespace

void finish_gemma3_config(ModelConfig& config, std::string_view where) {
  constexpr std::string_view kActivation = "gelu_pytorch_tanh";
  if (!config.activation.empty() && config.activation != kActivation) {
    fail(Code::Unsupported, "{}.hidden_activation: \"{}\" is not implemented for {} ({} is)", where, config.activation,
         config.model_type, kActivation);
  }
  if (config.attention_bias || config.mlp_bias) {
    fail(Code::Unsupported, "{}: attention_bias and mlp_bias are not implemented for {}", where, config.model_type);
  }
  if (config.query_pre_attn_scalar == 0) config.query_pre_attn_scalar = 256;
  if (config.sliding_window_pattern == 0) config.sliding_window_pattern = 6;
  if (config.layer_windows.empty()) {
    if (config.sliding_window == 0) fail(Code::Corrupt, "{}.sliding_window: missing, wanted an integer", where);
    for (int64_t i = 0; i < config.n_layers; ++i) {
      config.layer_windows.push_back((i + 1) % config.sliding_window_pattern == 0 ? 0 : config.sliding_window);
    }
  }
  // A checkpoint without a head is tied, whatever config.json says.
  if (config.tie_word_embeddings == false) config.tie_word_embeddings.reset();
}

std::vector<ModuleShape> gemma3_modules(const ModelConfig& config) {
  const std::string& prefix = config.tensor_prefix;
  std::vector<ModuleShape> out{
      {prefix + "model.embed_tokens", ModuleKind::Embedding, config.vocab_size, config.hidden_size, false}};
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const std::string layer = layer_path(config, i);
    const auto push_norm = [&](const char* name, int64_t n) {
      out.push_back({layer + name, ModuleKind::Norm, n, 0, false});
    };
    push_norm(".input_layernorm", config.hidden_size);
    for (const ModuleShape& m : attention_modules(config, layer)) out.push_back(m);
    push_norm(".self_attn.q_norm", config.head_dim);
    push_norm(".self_attn.k_norm", config.head_dim);
    push_norm(".post_attention_layernorm", config.hidden_size);
    push_norm(".pre_feedforward_layernorm", config.hidden_size);
    for (const ModuleShape& m : mlp_modules(config, layer)) out.push_back(m);
    push_norm(".post_feedforward_layernorm", config.hidden_size);
  }
  out.push_back({prefix + "model.norm", ModuleKind::Norm, config.hidden_size, 0, false});
  out.push_back({prefix + "lm_head", ModuleKind::Head, config.vocab_size, config.hidden_size, false});
  return out;
}

std::unique_ptr<Model> make_gemma3(const ModelConfig& config, Weights&& weights, const ModelOptions& options) {
  if (options.dtype == DType::F16) {
    fail(Code::Unsupported, "{}: f16 activations overflow in its residual stream; choose f32 or bf16",
         config.model_type);
  }
  return std::make_unique<Gemma3>(config, std::move(weights), options);
}

}  // namespace loft
