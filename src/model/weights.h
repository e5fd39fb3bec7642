// model: from the tensors of a checkpoint to the modules of an architecture. What enters: shards, config, the list of
// modules. What leaves: for each module a view with its own format, checked against its shapes; then device memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/buffer.h"
#include "model/config.h"
#include "model/modules.h"
#include "model/safetensors.h"
#include "ops/linear.h"
#include "quant/format.h"

namespace loft {

/// One module as the headers describe it: views into the mapped files, nothing read yet.
struct StoredModule {
  ModuleShape shape;
  QuantWeight weight;                  // a norm is a Dense weight [1, n]
  const StoredTensor* bias = nullptr;  // [n], the layer's own bias
  bool has_settings = false;           // an entry of the dict names it
};

/// A checkpoint folder whose every tensor has found its place. Nothing but headers is read.
///
/// Rules: a module with an entry in the quantization dict takes it (object: those settings; true: the global ones;
/// false: dense); any other module is quantized when `<path>.scales` exists, with the bits and group that the shapes
/// give. Errors: NotFound (a missing tensor: names it, the folder and the wanted shape), Corrupt (shapes against
/// settings: names the tensor, both shapes, both settings, the file; tensors that no module took: the first ten).
class Checkpoint {
 public:
  Checkpoint(const std::filesystem::path& folder, const ModelConfig& config, const std::vector<ModuleShape>& modules);

  const std::vector<StoredModule>& modules() const { return modules_; }
  const StoredModule* find(const std::string& path) const;  // null: no such module (a tied head)
  bool is_tied() const { return is_tied_; }
  uint64_t weight_bytes() const { return weight_bytes_; }  // of all modules, without ignored tensors
  /// One line a remark: dropped tensors, settings that differ from the global ones.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend struct ModuleReader;
  Shards shards_;
  std::vector<StoredModule> modules_;
  std::map<std::string, size_t> by_path_;
  std::vector<std::string> notes_;
  uint64_t weight_bytes_ = 0;
  bool is_tied_ = false;
};

/// The weights of a model in the memory of a backend. On the CPU, matrices stay where the files are mapped; small
/// vectors are copied, since the files do not align them. Owns everything it hands out.
class Weights {
 public:
  Weights(Backend& backend, Checkpoint&& checkpoint) : backend_(&backend), checkpoint_(std::move(checkpoint)) {}
  Backend& backend() const { return *backend_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

  QuantWeight table(const std::string& path);  // [n, k], for embed()
  Linear linear(const std::string& path);      // not yet prepared
  Tensor norm(const std::string& path);        // [n]
  /// The output projection: its own, or the embedding's table with the embedding's own format.
  Linear head(const std::string& path, const std::string& embedding_path);

 private:
  const StoredModule& stored(const std::string& path) const;
  Tensor vector(const StoredTensor& tensor, int64_t n);
  const void* place(const void* bytes, size_t n_bytes);

  Backend* backend_;
  Checkpoint checkpoint_;
  std::vector<Buffer> buffers_;
  std::map<const void*, const void*> placed_;  // so that a tied head shares the table
};

}  // namespace loft
