// model: what transformer families share: scratch memory, the start and end of a forward pass, attention, MLP, rope
// frequencies. Plain functions over structs; a quirk of one family stays in that family's file.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/linear.h"

namespace loft {

/// Memory of a forward pass, taken once when a model loads; rows are sliced off as needed, so nothing is allocated
/// later.
struct Scratch {
  Buffer memory;
  Tensor ids, positions;  // [max_rows] I32
  Tensor logit_rows;      // [max_logit_rows] I32
  Tensor hidden, normed;  // [max_rows, hidden]: residual stream, its norm
  Tensor branch;          // [max_rows, hidden]: what attention or MLP adds to the stream
  Tensor q, attended;     // [max_rows, n_heads * head_dim]
  Tensor k, v;            // [max_rows, n_kv_heads * head_dim]
  Tensor gate, up;        // [max_rows, intermediate]
  Tensor last;            // [max_logit_rows, hidden]
  Tensor logits;          // [max_logit_rows, vocab]
  LinearWorkspace workspace;
  std::vector<int32_t> host_positions;     // [max_rows]
  std::vector<AttentionSegment> segments;  // one a sequence; kv is that of the layer at hand
};

/// Bytes that make_scratch takes, without the workspace of linear(). Error: Unsupported when they do not fit 63 bits.
size_t scratch_bytes(const ModelConfig& config, const ModelOptions& options);
Scratch make_scratch(Backend& backend, const ModelConfig& config, const ModelOptions& options, const LinearPlan& plan);

/// One forward pass under way.
struct Step {
  Backend& backend;
  Scratch& scratch;
  const Batch& batch;
  int64_t m;         // rows
  Tensor ids;        // [m]
  Tensor positions;  // [m]
  Tensor hidden;     // [m, hidden]
  Tensor normed;     // [m, hidden]
  Tensor branch;     // [m, hidden]
};

/// Checks the batch and uploads tokens and positions. Error: BadRequest for a token outside [0, vocab_size).
Step begin_step(Backend& backend, Scratch& scratch, const Batch& batch, const ModelConfig& config);

/// Rotary frequencies of one kind of layer, in device memory.
struct Rope {
  Buffer memory;
  Tensor inv_freq;  // [head_dim / 2] F32, radians a token
  float scale = 1;  // on q and k before the rotation (yarn)
};
Rope make_rope(Backend& backend, const RopeConfig& config, int64_t head_dim);
/// The same frequencies on the host. Su et al. 2021 (arXiv 2104.09864); llama3 as in Meta's reference; yarn: Peng et
/// al. 2023 (arXiv 2309.00071). Computed in double, rounded once.
std::vector<float> rope_inv_freq(const RopeConfig& config, int64_t head_dim);

struct Attention {
  Linear q, k, v, o;
  Tensor q_norm, k_norm;  // [head_dim], before the rotation; data is null where the family has none
  float norm_eps = 0;
  float norm_offset = 0;
  int64_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  float scale = 1;     // on q k^T
  float softcap = 0;   // 0: none
  int64_t window = 0;  // 0: full
  const Rope* rope = nullptr;
};

struct Mlp {
  Linear gate, up, down;
  Activation activation = Activation::Silu;
};

/// step.branch = o(attention(q, k, v)) of step.normed; stores keys and values of layer i.
void attention_block(Step& step, int i, Attention& attention);
/// step.branch = down(activation(gate(x)) * up(x)) of step.normed.
void mlp_block(Step& step, Mlp& mlp);
/// y = x / rms(x) * (offset + weight), row by row.
void norm_block(Step& step, const Tensor& x, const Tensor& weight, float eps, float offset, const Tensor& y);

/// Shows the residual stream behind layer i to the batch's tap.
void tap_layer(const Step& step, int64_t i);

/// The end of a pass: norm and head of the wanted rows only, in blocks where a tap takes the logits; advances the
/// caches. Returns logits [n_logit_rows, vocab], or the last block of them.
struct Head {
  Tensor norm;  // [hidden]
  Linear linear;
  float norm_eps = 0;
  float norm_offset = 0;
  float softcap = 0;  // 0: none
};
Tensor end_step(Step& step, Head& head);
/// The table as its tied head has packed it; null: where it lies.
const void* packed_table(const QuantWeight& table, const Head& head);

/// Paths of the modules that Llama-like families share, `layer` before each: "model.layers.0".
std::vector<ModuleShape> attention_modules(const ModelConfig& config, const std::string& layer);
std::vector<ModuleShape> mlp_modules(const ModelConfig& config, const std::string& layer);
Attention take_attention(Weights& weights, const ModelConfig& config, const std::string& layer);
Mlp take_mlp(Weights& weights, const std::string& layer, Activation activation);

/// Prepares the weights of one layer for at most max_rows rows, in the order of a pass; q, k and v are one weight where
/// their formats are equal.
void prepare_blocks(Backend& backend, LinearPlan& plan, Attention& attention, Mlp& mlp, const ModelOptions& options);
void prepare_head(Backend& backend, LinearPlan& plan, Linear& head, const ModelOptions& options);

/// The cache shape that follows from a config: every layer has the same heads, and its own window.
KvCacheShape kv_shape_of(const ModelConfig& config, DType kv_dtype, int64_t max_tokens, int64_t max_chunk);

}  // namespace loft
