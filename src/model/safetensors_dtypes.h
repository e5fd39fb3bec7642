// model: the element types of safetensors. What enters: the word in a header, or a DType. What leaves: a row of the
// table.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace loft {

struct StoredDType {
  std::string_view text;
  uint64_t bits;
  std::optional<DType> dtype;  // nullopt: loft can size it, not compute with it
};

inline constexpr StoredDType kStoredDTypes[] = {
    {"F32", 32, DType::F32},
    {"F16", 16, DType::F16},
    {"BF16", 16, DType::BF16},
    {"F64", 64, DType::F64},
    {"I8", 8, DType::I8},
    {"U8", 8, DType::U8},
    {"I16", 16, DType::I16},
    {"U16", 16, DType::U16},
    {"I32", 32, DType::I32},
    {"U32", 32, DType::U32},
    {"I64", 64, DType::I64},
    {"U64", 64, DType::U64},
    {"BOOL", 8, DType::Bool},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
    {"C64", 64, std::nullopt},
};

/// The row of that word; null when safetensors has none.
inline const StoredDType* find_stored_dtype(std::string_view text) {
  for (const StoredDType& row : kStoredDTypes) {
    if (row.text == text) return &row;
  }
  return nullptr;
}

/// The word of a DType.
inline std::string_view stored_dtype_text(DType dtype) {
  for (const StoredDType& row : kStoredDTypes) {
    if (row.dtype == dtype) return row.text;
  }
  return "F32";
}

}  // namespace loft
