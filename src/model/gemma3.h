// model: the row of Gemma 3's language model in arch_list.cc.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "model/modules.h"

namespace loft {

class Weights;

void finish_gemma3_config(ModelConfig& config, std::string_view where);
std::vector<ModuleShape> gemma3_modules(const ModelConfig& config);
std::unique_ptr<Model> make_gemma3(const ModelConfig& config, Weights&& weights, const ModelOptions& options);

}  // namespace loft
