// Fuzz target: the bytes are a safetensors file. It is refused with an Error, or all tensors lie inside it and cover
// it.
#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const loft::SafetensorsFile file = loft::SafetensorsFile::parse({data, size}, "fuzz");
    size_t covered = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      if (tensor.bytes.data() < data || tensor.bytes.data() + tensor.bytes.size() > data + size) std::abort();
      covered += tensor.bytes.size();
    }
    if (covered > size - 8) std::abort();
  } catch (const loft::Error&) {
  }
  return 0;
}
