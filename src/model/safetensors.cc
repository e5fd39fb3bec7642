// model: the hardened reader of safetensors headers. See safetensors.h; shards and writer have files of their own.
#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/checked.h"
#include "core/error.h"
#include "core/json.h"
#include "model/safetensors_dtypes.h"

namespace loft {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxTensors = 1'000'000;

std::string show(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// An array of at most max_count whole numbers that fit 64 bits; `what` names it in messages.
std::vector<uint64_t> read_sizes(const Json& info, const char* key, size_t max_count, const std::string& where) {
  const Json* value = find_member(info, key);
  if (!value) fail(Code::Corrupt, "{}: no \"{}\"", where, key);
  if (!value->is_array()) fail(Code::Corrupt, "{}: {} {}, wanted an array", where, key, brief(*value));
  if (value->size() > max_count) {
    fail(Code::Corrupt, "{}: {} has {} entries, at most {} are read", where, key, value->size(), max_count);
  }
  std::vector<uint64_t> sizes;
  for (const Json& item : *value) {
    if (!item.is_number_unsigned()) {
      fail(Code::Corrupt, "{}: {} {}, wanted whole numbers of at most 64 bits, not negative", where, key,
           brief(*value));
    }
    sizes.push_back(item.get<uint64_t>());
  }
  return sizes;
}

// Bytes of a tensor by its shape and type; all products checked, also where a zero dim would hide an overflow in bits.
uint64_t bytes_by_shape(const std::vector<uint64_t>& shape, const StoredDType& type, const std::string& where) {
  const std::optional<uint64_t> count = checked_product(shape);
  const std::optional<uint64_t> bits = count ? checked_mul(*count, type.bits) : std::nullopt;
  if (!bits) fail(Code::Corrupt, "{}: shape {} of {} does not fit 64 bits", where, show(shape), type.text);
  if (*bits % 8 != 0) fail(Code::Corrupt, "{}: shape {} of {} does not end on a byte", where, show(shape), type.text);
  return *bits / 8;
}

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  const std::string* name = nullptr;
};

StoredTensor read_tensor(const Json& info, std::span<const uint8_t> buffer, Extent& extent, const std::string& where) {
  if (!info.is_object()) fail(Code::Corrupt, "{}: {}, wanted an object", where, brief(info));
  StoredTensor tensor;
  const Json* dtype = find_member(info, "dtype");
  if (!dtype || !dtype->is_string()) fail(Code::Corrupt, "{}: no \"dtype\" that is a string", where);
  tensor.dtype_text = dtype->get<std::string>();
  const StoredDType* type = find_stored_dtype(tensor.dtype_text);
  if (!type) fail(Code::Corrupt, "{}: dtype {} is none that safetensors knows", where, brief(*dtype));
  tensor.dtype = type->dtype;
  tensor.shape = read_sizes(info, "shape", kMaxRank, where);
  const std::vector<uint64_t> offsets = read_sizes(info, "data_offsets", 2, where);
  if (offsets.size() != 2) fail(Code::Corrupt, "{}: data_offsets has {} entries, wanted 2", where, offsets.size());
  extent.begin = offsets[0];
  extent.end = offsets[1];
  if (extent.begin > extent.end || extent.end > buffer.size()) {
    fail(Code::Corrupt, "{}: data_offsets [{}, {}], wanted an extent within the {} bytes of the buffer", where,
         extent.begin, extent.end, buffer.size());
  }
  const uint64_t wanted = bytes_by_shape(tensor.shape, *type, where);
  if (wanted != extent.end - extent.begin) {
    fail(Code::Corrupt, "{}: data_offsets [{}, {}] hold {} bytes, wanted {} for shape {} of {}", where, extent.begin,
         extent.end, extent.end - extent.begin, wanted, show(tensor.shape), tensor.dtype_text);
  }
  tensor.bytes = buffer.subspan(size_t(extent.begin), size_t(wanted));
  return tensor;
}

// The extents follow each other without overlap or hole from 0 to the end of the buffer.
void check_coverage(std::vector<Extent>& extents, uint64_t buffer_bytes, const std::string& where) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t covered = 0;
  const std::string* before = nullptr;
  for (const Extent& extent : extents) {
    if (extent.begin < covered) {
      fail(Code::Corrupt, "{}: tensors {} and {} overlap at byte {} of the buffer", where, *before, *extent.name,
           extent.begin);
    }
    if (extent.begin > covered) {
      fail(Code::Corrupt, "{}: bytes {} to {} of the buffer, before tensor {}, belong to no tensor", where, covered,
           extent.begin, *extent.name);
    }
    covered = extent.end;
    before = extent.name;
  }
  if (covered != buffer_bytes) {
    fail(Code::Corrupt, "{}: {} bytes after the last tensor belong to no tensor", where, buffer_bytes - covered);
  }
}

std::map<std::string, std::string> read_metadata(const Json& object, const std::string& where) {
  if (!object.is_object()) fail(Code::Corrupt, "{}: __metadata__ is {}, wanted an object", where, brief(object));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      fail(Code::Corrupt, "{}: __metadata__.{} is {}, wanted a string", where, key, brief(value));
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  FileMap map = FileMap::open(path);
  SafetensorsFile file = parse(map.bytes(), path.string());
  file.map_ = std::move(map);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const uint8_t> bytes, std::string_view where) {
  SafetensorsFile file;
  file.where_ = std::string(where);
  if (bytes.size() < 8) fail(Code::Corrupt, "{}: {} bytes, wanted at least 8 for the header size", where, bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes) {
    fail(Code::Corrupt, "{}: header of {} bytes, at most {} are read", where, header_bytes, kMaxHeaderBytes);
  }
  if (header_bytes > bytes.size() - 8) {
    fail(Code::Corrupt, "{}: header of {} bytes in a file of {}: cut off, or not a safetensors file", where,
         header_bytes, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, size_t(header_bytes));
  if (!text.starts_with('{')) fail(Code::Corrupt, "{}: the header does not start with '{{'", where);
  const JsonLimits limits{.max_bytes = kMaxHeaderBytes, .max_depth = 3, .python_numbers = false, .unique_keys = true};
  const Json header = parse_json(text, file.where_, limits);
  if (header.size() > kMaxTensors) {
    fail(Code::Corrupt, "{}: {} tensors, at most {} are read", where, header.size(), kMaxTensors);
  }
  const std::span<const uint8_t> buffer = bytes.subspan(size_t(8 + header_bytes));
  std::vector<Extent> extents;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      file.metadata_ = read_metadata(info, file.where_);
      continue;
    }
    Extent extent;
    StoredTensor tensor = read_tensor(info, buffer, extent, fmt::format("{}: tensor {}", where, name));
    extent.name = &file.tensors_.emplace(name, std::move(tensor)).first->first;
    extents.push_back(extent);
  }
  check_coverage(extents, buffer.size(), file.where_);
  return file;
}

}  // namespace loft
