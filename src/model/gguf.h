// model: GGUF files, read by the converter only. What enters: a path. What leaves: metadata values and tensor views
// into the mapped file. The reader trusts nothing: every count, length, offset and product is compared with the real
// file size.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_map.h"
#include "quant/gguf_blocks.h"

namespace loft {

enum class GgufType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
const char* gguf_type_name(GgufType type);

/// One metadata value. Numbers are widened; an array holds numbers or strings, never arrays.
struct GgufValue {
  GgufType type = GgufType::U8;
  int64_t integer = 0;                    // integer types and Bool
  bool above_int64 = false;               // a U64 that integer cannot hold
  double number = 0;                      // F32 and F64
  std::string_view text;                  // String: a view into the file, any bytes
  GgufType element = GgufType::U8;        // Array
  uint64_t count = 0;                     // Array
  std::span<const uint8_t> raw;           // Array of numbers: little-endian, any alignment
  std::vector<std::string_view> strings;  // Array of strings
};

/// A tensor as in the file: dims innermost first, so that [in, out] is MLX's [out, in].
struct GgufTensor {
  const GgufBlockType* type = nullptr;
  std::vector<uint64_t> dims;  // 1 to 4, innermost first
  uint64_t n_values = 0;
  std::span<const uint8_t> bytes;
};

/// One file. Errors: NotFound; Corrupt, naming file, key or tensor, found and wanted; Unsupported for another version,
/// a big-endian file, nested arrays or a tensor type that is not in the table.
class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);
  /// As open, over memory that outlives the result (tests, fuzzing).
  static GgufFile parse(std::span<const uint8_t> file, std::string_view where);

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  const std::string& where() const { return where_; }

  /// The value of a key as the wanted type; nullopt when the key is absent. Errors: Corrupt when it has another type.
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;
  const std::vector<std::string_view>* find_texts(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_ints(std::string_view key) const;    // any integer element type
  std::optional<std::vector<double>> find_numbers(std::string_view key) const;  // F32 or F64

  /// The same; Corrupt when the key is absent.
  int64_t take_int(std::string_view key) const;
  double take_number(std::string_view key) const;
  std::string take_text(std::string_view key) const;

 private:
  const GgufValue* find(std::string_view key) const;
  FileMap map_;
  std::string where_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace loft
