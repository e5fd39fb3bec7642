// model: bodies of the shared blocks. Shapes are fixed by construction here, so the backend checks nothing again.
#include "model/blocks.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"

namespace loft {
namespace {

/// Rows [0, m) of x [max_rows, n_heads * head_dim] seen as [m, n_heads, head_dim].
Tensor heads_of(const Tensor& x, int64_t m, int64_t n_heads, int64_t head_dim) {
  return make_tensor(x.data, x.dtype, {m, n_heads, head_dim});
}

bool takes_logits(const Batch& batch) {
  return batch.taps && batch.taps->logits;
}

struct Part {
  Tensor Scratch::*tensor;
  DType dtype;
  int64_t rows, columns;  // columns 0: a vector
};

std::vector<Part> scratch_parts(const ModelConfig& c, const ModelOptions& o) {
  const int64_t m = o.max_rows, r = o.max_logit_rows;
  const DType x = o.dtype;
  return {
      {&Scratch::ids, DType::I32, m, 0},
      {&Scratch::positions, DType::I32, m, 0},
      {&Scratch::logit_rows, DType::I32, r, 0},
      {&Scratch::hidden, x, m, c.hidden_size},
      {&Scratch::normed, x, m, c.hidden_size},
      {&Scratch::branch, x, m, c.hidden_size},
      {&Scratch::q, x, m, c.n_heads * c.head_dim},
      {&Scratch::attended, x, m, c.n_heads * c.head_dim},
      {&Scratch::k, x, m, c.n_kv_heads * c.head_dim},
      {&Scratch::v, x, m, c.n_kv_heads * c.head_dim},
      {&Scratch::gate, x, m, c.intermediate_size},
      {&Scratch::up, x, m, c.intermediate_size},
      {&Scratch::last, x, r, c.hidden_size},
      {&Scratch::logits, x, r, c.vocab_size},
  };
}

size_t part_bytes(const Part& part) {
  constexpr uint64_t kAlignment = 64;
  const uint64_t dims[] = {uint64_t(part.rows), uint64_t(std::max<int64_t>(part.columns, 1)), dtype_bytes(part.dtype)};
  const std::optional<uint64_t> bytes = checked_product(dims);
  if (!bytes || *bytes > uint64_t(INT64_MAX) / 32) {
    fail(Code::Unsupported, "activations of {} rows: their size does not fit 63 bits", part.rows);
  }
  return (*bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

size_t scratch_bytes(const ModelConfig& config, const ModelOptions& options) {
  size_t total = 0;
  for (const Part& part : scratch_parts(config, options)) total += part_bytes(part);
  return total;
}

Scratch make_scratch(Backend& backend, const ModelConfig& config, const ModelOptions& options, const LinearPlan& plan) {
  Scratch s;
  s.memory = backend.allocate(scratch_bytes(config, options));
  uint8_t* next = static_cast<uint8_t*>(s.memory.data());
  for (const Part& part : scratch_parts(config, options)) {
    s.*part.tensor = part.columns == 0 ? make_tensor(next, part.dtype, {part.rows})
                                       : make_tensor(next, part.dtype, {part.rows, part.columns});
    next += part_bytes(part);
  }
  s.workspace = make_linear_workspace(backend, plan, options.dequant_cache);
  s.host_positions.resize(size_t(options.max_rows));
  s.segments.reserve(size_t(options.max_rows));
  return s;
}

Step begin_step(Backend& backend, Scratch& scratch, const Batch& batch, const ModelConfig& config) {
  const int64_t m = int64_t(batch.tokens.size());
  LOFT_CHECK_MSG(m >= 1 && m <= scratch.ids.dim(0), "{} rows, at most {}", m, scratch.ids.dim(0));
  LOFT_CHECK_MSG(takes_logits(batch) || int64_t(batch.logit_rows.size()) <= scratch.logits.dim(0),
                 "{} logit rows, at most {}", batch.logit_rows.size(), scratch.logits.dim(0));
  for (const int32_t id : batch.tokens) {
    if (id < 0 || id >= config.vocab_size) {
      fail(Code::BadRequest, "token id {}: wanted 0 to {}", id, config.vocab_size - 1);
    }
  }
  scratch.segments.clear();
  int64_t next_row = 0;
  for (const BatchSequence& s : batch.sequences) {
    const int64_t past = s.cache->n_tokens();
    LOFT_CHECK_MSG(s.first_row == next_row && s.n_rows >= 1 && past + s.n_rows <= s.cache->capacity() &&
                       s.n_rows <= s.cache->max_chunk(),
                   "rows {} + {} after {} of {} tokens, chunks of {}", s.first_row, s.n_rows, past, s.cache->capacity(),
                   s.cache->max_chunk());
    scratch.segments.push_back({.kv = {}, .first_row = s.first_row, .n_rows = s.n_rows, .n_past = past});
    for (int64_t i = 0; i < s.n_rows; ++i) scratch.host_positions[size_t(next_row++)] = int32_t(past + i);
  }
  LOFT_CHECK_MSG(next_row == m, "sequences cover {} of {} rows", next_row, m);
  Step step{.backend = backend,
            .scratch = scratch,
            .batch = batch,
            .m = m,
            .ids = slice_rows(scratch.ids, 0, m),
            .positions = slice_rows(scratch.positions, 0, m),
            .hidden = slice_rows(scratch.hidden, 0, m),
            .normed = slice_rows(scratch.normed, 0, m),
            .branch = slice_rows(scratch.branch, 0, m)};
  backend.upload(step.ids.data, batch.tokens.data(), step.ids.bytes());
  backend.upload(step.positions.data, scratch.host_positions.data(), step.positions.bytes());
  return step;
}

void norm_block(Step& step, const Tensor& x, const Tensor& weight, float eps, float offset, const Tensor& y) {
  step.backend.rms_norm({.x = x, .weight = weight, .y = y, .eps = eps, .weight_offset = offset});
}

void attention_block(Step& step, int i, Attention& a) {
  Backend& backend = step.backend;
  Scratch& s = step.scratch;
  const Tensor outputs[] = {slice_rows(s.q, 0, step.m), slice_rows(s.k, 0, step.m), slice_rows(s.v, 0, step.m)};
  Linear* const projections[] = {&a.q, &a.k, &a.v};
  linear_many(backend, s.workspace, projections, step.normed, outputs);
  const Tensor q = heads_of(s.q, step.m, a.n_heads, a.head_dim);
  const Tensor k = heads_of(s.k, step.m, a.n_kv_heads, a.head_dim);
  const Tensor v = heads_of(s.v, step.m, a.n_kv_heads, a.head_dim);
  if (a.q_norm.data) {
    norm_block(step, q, a.q_norm, a.norm_eps, a.norm_offset, q);
    norm_block(step, k, a.k_norm, a.norm_eps, a.norm_offset, k);
  }
  for (const Tensor& x : {q, k}) {
    backend.rope({.x = x, .positions = step.positions, .inv_freq = a.rope->inv_freq, .scale = a.rope->scale});
  }
  for (size_t j = 0; j < s.segments.size(); ++j) s.segments[j].kv = step.batch.sequences[j].cache->layer(i);
  backend.store_kv({.k = k, .v = v, .segments = s.segments});
  backend.attention({.q = q,
                     .y = heads_of(s.attended, step.m, a.n_heads, a.head_dim),
                     .n_kv_heads = a.n_kv_heads,
                     .scale = a.scale,
                     .window = a.window,
                     .softcap = a.softcap,
                     .segments = s.segments});
  linear(backend, s.workspace, a.o, slice_rows(s.attended, 0, step.m), step.branch);
}

void mlp_block(Step& step, Mlp& mlp) {
  Scratch& s = step.scratch;
  const Tensor outputs[] = {slice_rows(s.gate, 0, step.m), slice_rows(s.up, 0, step.m)};
  Linear* const projections[] = {&mlp.gate, &mlp.up};
  linear_many(step.backend, s.workspace, projections, step.normed, outputs);
  step.backend.gated_activation(mlp.activation, outputs[0], outputs[1], outputs[0]);
  linear(step.backend, s.workspace, mlp.down, outputs[0], step.branch);
}

void tap_layer(const Step& step, int64_t i) {
  const ForwardTaps* taps = step.batch.taps;
  if (taps && taps->layer) taps->layer(i, step.hidden);
}

const void* packed_table(const QuantWeight& table, const Head& head) {
  return head.linear.weight.words == table.words ? head.linear.packed.data() : nullptr;
}

Tensor end_step(Step& step, Head& head) {
  Backend& backend = step.backend;
  Scratch& s = step.scratch;
  const std::span<const int32_t> wanted = step.batch.logit_rows;
  Tensor logits = slice_rows(s.logits, 0, 0);
  for (size_t first = 0; first < wanted.size();) {
    const size_t n = std::min(wanted.size() - first, size_t(s.logits.dim(0)));
    logits = slice_rows(s.logits, 0, int64_t(n));
    const Tensor rows = slice_rows(s.logit_rows, 0, int64_t(n));
    const Tensor last = slice_rows(s.last, 0, int64_t(n));
    backend.upload(rows.data, wanted.data() + first, rows.bytes());
    backend.gather_rows(step.hidden, rows, last);
    norm_block(step, last, head.norm, head.norm_eps, head.norm_offset, last);
    linear(backend, s.workspace, head.linear, last, logits);
    if (head.softcap > 0) backend.softcap(logits, head.softcap, logits);
    if (takes_logits(step.batch)) step.batch.taps->logits(int64_t(first), logits);
    first += n;
  }
  for (const BatchSequence& sequence : step.batch.sequences) sequence.cache->advance(sequence.n_rows);
  return logits;
}

std::vector<ModuleShape> attention_modules(const ModelConfig& c, const std::string& layer) {
  const std::string at = layer + ".self_attn.";
  const int64_t n_q = c.n_heads * c.head_dim, n_kv = c.n_kv_heads * c.head_dim;
  return {{at + "q_proj", ModuleKind::Linear, n_q, c.hidden_size, c.attention_bias},
          {at + "k_proj", ModuleKind::Linear, n_kv, c.hidden_size, c.attention_bias},
          {at + "v_proj", ModuleKind::Linear, n_kv, c.hidden_size, c.attention_bias},
          {at + "o_proj", ModuleKind::Linear, c.hidden_size, n_q, c.attention_bias}};
}

std::vector<ModuleShape> mlp_modules(const ModelConfig& c, const std::string& layer) {
  const std::string at = layer + ".mlp.";
  return {{at + "gate_proj", ModuleKind::Linear, c.intermediate_size, c.hidden_size, c.mlp_bias},
          {at + "up_proj", ModuleKind::Linear, c.intermediate_size, c.hidden_size, c.mlp_bias},
          {at + "down_proj", ModuleKind::Linear, c.hidden_size, c.intermediate_size, c.mlp_bias}};
}

Attention take_attention(Weights& weights, const ModelConfig& c, const std::string& layer) {
  const std::string at = layer + ".self_attn.";
  Attention a;
  a.q = weights.linear(at + "q_proj");
  a.k = weights.linear(at + "k_proj");
  a.v = weights.linear(at + "v_proj");
  a.o = weights.linear(at + "o_proj");
  a.n_heads = c.n_heads;
  a.n_kv_heads = c.n_kv_heads;
  a.head_dim = c.head_dim;
  a.scale = float(1.0 / std::sqrt(double(c.head_dim)));
  return a;
}

Mlp take_mlp(Weights& weights, const std::string& layer, Activation activation) {
  const std::string at = layer + ".mlp.";
  return {.gate = weights.linear(at + "gate_proj"),
          .up = weights.linear(at + "up_proj"),
          .down = weights.linear(at + "down_proj"),
          .activation = activation};
}

void prepare_blocks(Backend& backend, LinearPlan& plan, Attention& attention, Mlp& mlp, const ModelOptions& options) {
  Linear* const qkv[] = {&attention.q, &attention.k, &attention.v};
  prepare_weights(backend, plan, qkv, options.dtype, options.max_rows);
  for (Linear* layer : {&attention.o, &mlp.gate, &mlp.up, &mlp.down}) {
    prepare_weights(backend, plan, {&layer, 1}, options.dtype, options.max_rows);
  }
}

void prepare_head(Backend& backend, LinearPlan& plan, Linear& head, const ModelOptions& options) {
  Linear* const layers[] = {&head};
  prepare_weights(backend, plan, layers, options.dtype, options.max_logit_rows);
}

KvCacheShape kv_shape_of(const ModelConfig& c, DType kv_dtype, int64_t max_tokens, int64_t max_chunk) {
  KvCacheShape shape{.layers = {}, .dtype = kv_dtype, .max_tokens = max_tokens, .max_chunk = max_chunk};
  for (const int64_t window : c.layer_windows) {
    shape.layers.push_back({.n_kv_heads = c.n_kv_heads, .head_dim = c.head_dim, .window = window});
  }
  return shape;
}

}  // namespace loft
