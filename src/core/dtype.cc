#include "core/dtype.h"

#include <cstdlib>

namespace loft {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  size_t bytes;
};

constexpr DTypeRow kDTypes[] = {
    {DType::F32, "f32", 4},   {DType::F16, "f16", 2}, {DType::BF16, "bf16", 2}, {DType::F64, "f64", 8},
    {DType::I8, "i8", 1},     {DType::U8, "u8", 1},   {DType::I16, "i16", 2},   {DType::U16, "u16", 2},
    {DType::I32, "i32", 4},   {DType::U32, "u32", 4}, {DType::I64, "i64", 8},   {DType::U64, "u64", 8},
    {DType::Bool, "bool", 1},
};

const DTypeRow& row(DType dtype) {
  for (const DTypeRow& r : kDTypes) {
    if (r.dtype == dtype) return r;
  }
  std::abort();
}

}  // namespace

size_t dtype_bytes(DType dtype) {
  return row(dtype).bytes;
}
const char* dtype_name(DType dtype) {
  return row(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& r : kDTypes) {
    if (name == r.name) return r.dtype;
  }
  return std::nullopt;
}

}  // namespace loft
