// fuzz target: config.json text into ModelConfig and the module list that follows. Only Error may come out.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "model/arch_list.h"
#include "model/blocks.h"
#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const loft::ModelConfig config =
        loft::parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "config.json");
    loft::find_arch(config.model_type)->modules(config);
    loft::rope_inv_freq(config.rope, config.head_dim);
    loft::rope_inv_freq(config.local_rope, config.head_dim);
    loft::scratch_bytes(config, {});
    loft::kv_cache_bytes(loft::kv_shape_of(config, loft::DType::F16, config.max_positions, 2048));
  } catch (const loft::Error&) {
  }
  return 0;
}
