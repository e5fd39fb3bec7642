// model: what quantize_checkpoint decides before it touches a weight; nobody else includes this. What enters: the
// request, the config and the modules of the source. What leaves: a format and tensors for each module, and the new
// config.json.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/json.h"
#include "model/config.h"
#include "model/quantize_checkpoint.h"
#include "model/weights.h"

namespace loft {

/// How one module is written. tensors: weight, scales, biases (those that the format has), then the additive bias.
struct ModulePlan {
  QuantFormat format;             // Dense: stays or becomes dense
  DType dtype = DType::F32;       // of dense values, and of affine scales and biases
  DType bias_dtype = DType::F32;  // of the layer's additive bias
  bool is_copy = false;           // the stored parts already have this format
  std::vector<TensorPlan> tensors;
};

/// Errors: BadRequest and Unsupported as quantize_checkpoint says.
void check_quantize_request(const QuantizeRequest& request);

/// One plan a module, in their order.
std::vector<ModulePlan> plan_modules(const QuantizeRequest& request, const ModelConfig& config, const OrderedJson& json,
                                     const std::vector<StoredModule>& modules);

/// Writes the source's config.json with the new quantization dict to `path`.
void write_quantized_config(const QuantizeRequest& request, OrderedJson json, const std::vector<StoredModule>& modules,
                            const std::vector<ModulePlan>& plans, const std::filesystem::path& path);

}  // namespace loft
