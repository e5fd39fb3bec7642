#include "model/pass_products.h"

#include <fmt/format.h>

namespace loft {

std::vector<PassProduct> pass_products(const ModelConfig& c, const QuantFormat& format, DType dtype) {
  std::vector<PassProduct> out;
  const auto add = [&](std::string name, int64_t n, int64_t k, bool last_row_only) {
    const bool is_dense = format.kind == QuantKind::Dense;
    const bool has_biases = format_row(format.kind).has_biases;
    const DType scales = is_dense || has_biases ? dtype : format_row(format.kind).scale_dtype;
    out.push_back(
        {.name = std::move(name),
         .spec = {.format = format, .x_dtype = dtype, .scale_dtype = scales, .has_biases = has_biases, .n = n, .k = k},
         .last_row_only = last_row_only});
  };
  const int64_t q = c.n_heads * c.head_dim;
  const int64_t kv = c.n_kv_heads * c.head_dim;
  for (int64_t i = 0; i < c.n_layers; ++i) {
    const std::string layer = fmt::format("{}model.layers.{}", c.tensor_prefix, i);
    add(layer + ".self_attn.qkv", q + 2 * kv, c.hidden_size, false);
    add(layer + ".self_attn.o_proj", c.hidden_size, q, false);
    add(layer + ".mlp.gate_proj", c.intermediate_size, c.hidden_size, false);
    add(layer + ".mlp.up_proj", c.intermediate_size, c.hidden_size, false);
    add(layer + ".mlp.down_proj", c.hidden_size, c.intermediate_size, false);
  }
  add(c.tensor_prefix + "lm_head", c.vocab_size, c.hidden_size, true);
  return out;
}

}  // namespace loft
