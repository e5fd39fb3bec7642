// Fuzz target: the GGUF reader, the block decoders, and all of the conversion that follows a readable file.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/convert_steps.h"
#include "model/gguf.h"

namespace {

// One folder for the life of the process; emptied before each conversion.
struct Scratch {
  std::filesystem::path path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "loft-fuzz-gguf-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path)) std::filesystem::remove_all(entry.path());
  }
};

void decode_all(const loft::GgufFile& file) {
  std::vector<float> values;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!tensor.type->decode || tensor.n_values > 1 << 20) continue;
    values.resize(tensor.n_values);
    loft::decode_gguf(*tensor.type, tensor.bytes.data(), int64_t(tensor.n_values), values.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  try {
    const loft::GgufFile file = loft::GgufFile::parse({data, size}, "fuzz.gguf");
    decode_all(file);
    scratch.empty();
    loft::convert_gguf(file, loft::ScaleDType::F16, scratch.path, {});
  } catch (const loft::Error&) {
  }
  return 0;
}
