// model: the rows of Llama and Mistral in arch_list.cc.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "model/modules.h"

namespace loft {

class Weights;

void finish_llama_config(ModelConfig& config, std::string_view where);
void finish_mistral_config(ModelConfig& config, std::string_view where);  ///< sliding_window holds for every layer
std::vector<ModuleShape> llama_modules(const ModelConfig& config);
std::unique_ptr<Model> make_llama(const ModelConfig& config, Weights&& weights, const ModelOptions& options);

}  // namespace loft
