#include "measure/model_id.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/file_map.h"
#include "core/sha256.h"
#include "model/safetensors.h"

namespace loft {

std::string model_id(const std::filesystem::path& folder) {
  constexpr size_t kMaxConfigBytes = size_t(8) << 20;
  Sha256 sum;
  sum.update(read_text_file(folder / "config.json", kMaxConfigBytes));
  const Shards shards = Shards::open(folder);
  for (const std::string& name : shards.names()) {
    const StoredTensor* t = shards.find(name);
    sum.update(fmt::format("{} {} {}\n", name, t->dtype_text, fmt::join(t->shape, "x")));
  }
  return sum.hex();
}

}  // namespace loft
