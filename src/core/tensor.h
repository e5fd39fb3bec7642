// core: a non-owning view of typed memory. No mathematics here.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include "core/dtype.h"
#include "core/error.h"

namespace loft {

/// A value: pointer, element type, up to four dims (outermost first) and their strides in elements. The memory is
/// somebody else's and must outlive the view. Device memory is viewed in the same way; only the backend reads it.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::F32;
  int rank = 0;
  std::array<int64_t, 4> shape{};
  std::array<int64_t, 4> stride{};  // in elements

  int64_t dim(int i) const { return shape[size_t(i)]; }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  size_t bytes() const { return size_t(size()) * dtype_bytes(dtype); }
  bool is_contiguous() const {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride[size_t(i)] != expected) return false;
      expected *= dim(i);
    }
    return true;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// A contiguous view of `data` with the given dims.
inline Tensor make_tensor(void* data, DType dtype, std::initializer_list<int64_t> dims) {
  LOFT_CHECK(dims.size() <= 4);
  Tensor t{.data = data, .dtype = dtype, .rank = int(dims.size())};
  int i = 0;
  for (int64_t d : dims) t.shape[size_t(i++)] = d;
  int64_t stride = 1;
  for (i = t.rank - 1; i >= 0; --i) {
    t.stride[size_t(i)] = stride;
    stride *= t.dim(i);
  }
  return t;
}

/// Rows [begin, end) of the outermost dim, as a view of the same memory.
inline Tensor slice_rows(const Tensor& t, int64_t begin, int64_t end) {
  LOFT_CHECK(t.rank >= 1 && begin >= 0 && begin <= end && end <= t.dim(0));
  Tensor s = t;
  s.data = static_cast<uint8_t*>(t.data) + size_t(begin * t.stride[0]) * dtype_bytes(t.dtype);
  s.shape[0] = end - begin;
  return s;
}

}  // namespace loft
