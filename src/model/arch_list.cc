// model: the rows themselves. Each function pair lives in the family's own file.
#include "model/arch_list.h"

#include "model/gemma3.h"
#include "model/llama.h"

namespace loft {
namespace {

constexpr FamilyDefaults kLlamaDefaults{.rope_theta = 10000.0, .max_positions = 2048, .rms_norm_eps = 1e-6};
constexpr FamilyDefaults kGemma3Defaults{.rope_theta = 1e6,
                                         .n_heads = 4,
                                         .n_kv_heads = 1,
                                         .head_dim = 256,
                                         .vocab_size = 262144,
                                         .max_positions = 32768,
                                         .rms_norm_eps = 1e-6};

constexpr ArchRow kArchs[] = {
    {"llama", kLlamaDefaults, finish_llama_config, llama_modules, make_llama},
    {"mistral", kLlamaDefaults, finish_mistral_config, llama_modules, make_llama},
    {"gemma3_text", kGemma3Defaults, finish_gemma3_config, gemma3_modules, make_gemma3},
};

// Gemma 3 from 4B up leaves out whatever equals the defaults of its configuration class.
constexpr WrapperRow kWrappers[] = {
    {"gemma3",
     "gemma3_text",
     "language_model.",
     {.n_heads = 8, .n_kv_heads = 4, .vocab_size = 262208, .max_positions = 131072}},
};

}  // namespace

std::span<const ArchRow> arch_rows() {
  return kArchs;
}

const ArchRow* find_arch(std::string_view model_type) {
  for (const ArchRow& row : kArchs) {
    if (model_type == row.model_type) return &row;
  }
  return nullptr;
}

const WrapperRow* find_wrapper(std::string_view model_type) {
  for (const WrapperRow& row : kWrappers) {
    if (model_type == row.model_type) return &row;
  }
  return nullptr;
}

std::string supported_archs() {
  std::string text;
  for (const ArchRow& row : kArchs) text += std::string(text.empty() ? "" : ", ") + row.model_type;
  for (const WrapperRow& row : kWrappers) text += std::string(", ") + row.model_type;
  return text;
}

}  // namespace loft
