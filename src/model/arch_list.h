// model: the list of architectures. A row says how a family completes its config, which modules its checkpoints hold,
// and how a loaded model is made from them. A new family is one file and one row.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "model/modules.h"

namespace loft {

class Weights;  // model/weights.h

/// What config.json may leave out; 0: the key is required.
struct FamilyDefaults {
  double rope_theta = 10000.0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;    // 0: hidden_size / heads
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  double rms_norm_eps = 0;
};

struct ArchRow {
  const char* model_type;
  FamilyDefaults defaults;
  /// Fills what follows from the family (layer_windows, ...) and refuses what its forward does not do.
  void (*finish_config)(ModelConfig& config, std::string_view where);
  /// Every module of a checkpoint, in the order of a forward pass.
  std::vector<ModuleShape> (*modules)(const ModelConfig& config);
  std::unique_ptr<Model> (*make)(const ModelConfig& config, Weights&& weights, const ModelOptions& options);
};

std::span<const ArchRow> arch_rows();
const ArchRow* find_arch(std::string_view model_type);  ///< null: unknown
std::string supported_archs();                          ///< "llama, mistral, ..." with the wrappers, for messages

/// A config that holds the language model's own under text_config.
struct WrapperRow {
  const char* model_type;
  const char* inner_type;     // when text_config names none
  const char* tensor_prefix;  // of every module path of the language model
  FamilyDefaults defaults;    // stand before the inner family's where not 0
};
const WrapperRow* find_wrapper(std::string_view model_type);

}  // namespace loft
