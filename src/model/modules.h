// model: the modules of a checkpoint as a list of paths and shapes. The loader, the summary and the synthesizer all
// read this one list, which each architecture makes from its config.
#pragma once
#include <cstdint>
#include <string>

namespace loft {

/// Head: the output projection, which may be tied to the embedding and then absent.
enum class ModuleKind : uint8_t { Embedding, Linear, Norm, Head };

struct ModuleShape {
  std::string path;  // as in the checkpoint: "model.layers.0.self_attn.q_proj"
  ModuleKind kind = ModuleKind::Linear;
  int64_t n = 0;          // outputs; rows of an embedding; length of a norm
  int64_t k = 0;          // inputs; 0 for a norm
  bool has_bias = false;  // the layer's own additive bias [n]
};

}  // namespace loft
