// backend/cpu: sums, activations, caps and casts, row by row; and the walk over rows that all ops use.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"

namespace loft {

float* FloatScratch::take(int64_t floats) {
  const size_t held = memory_.bytes(), need = size_t(floats) * sizeof(float);
  if (need > held) {
    memory_ = {};
    memory_ = heap_->allocate(std::max(need, held + held / 2));
  }
  return static_cast<float*>(memory_.data());
}

Rows::Rows(const Tensor& tensor) : tensor_(tensor), element_(dtype_bytes(tensor.dtype)) {
  LOFT_DCHECK(tensor.rank >= 1);
  d = tensor.dim(tensor.rank - 1);
  n = 1;
  is_flat_ = true;
  for (int i = 0; i + 1 < tensor.rank; ++i) n *= tensor.dim(i);
  // Flat: outer dims step evenly, so a row's place is one product.
  for (int i = 0; i + 2 < tensor.rank; ++i) {
    if (tensor.stride[size_t(i)] != tensor.stride[size_t(i) + 1] * tensor.dim(i + 1)) is_flat_ = false;
  }
}

uint8_t* Rows::at(int64_t row) const {
  int64_t offset = 0;
  if (tensor_.rank >= 2 && is_flat_) {
    offset = row * tensor_.stride[size_t(tensor_.rank) - 2];
  } else {
    for (int i = tensor_.rank - 2; i >= 0; --i) {
      offset += row % tensor_.dim(i) * tensor_.stride[size_t(i)];
      row /= tensor_.dim(i);
    }
  }
  return static_cast<uint8_t*>(tensor_.data) + offset * int64_t(element_);
}

int64_t rows_per_chunk(int64_t elements_a_row) {
  constexpr int64_t kElementsAChunk = 16384;
  return std::max<int64_t>(1, kElementsAChunk / std::max<int64_t>(elements_a_row, 1));
}

namespace {

/// A contiguous tensor without a row structure of its own is cut into rows of this many elements, so that one long row
/// (logits of one token) still spreads over threads. A multiple of 16: vectors are whole but for the last.
constexpr int64_t kFlatRow = 4096;

/// body(row pieces): calls f(byte pointers of each tensor, count) over pieces that cover all tensors.
template <size_t N, class Function>
void for_pieces(CpuContext& cpu, const std::array<const Tensor*, N>& tensors, Function f) {
  bool is_flat = true;
  for (const Tensor* t : tensors) is_flat = is_flat && t->is_contiguous();
  if (is_flat) {
    const int64_t size = tensors[0]->size();
    const int64_t pieces = (size + kFlatRow - 1) / kFlatRow;
    cpu.pool.parallel_for(pieces, rows_per_chunk(kFlatRow), [&](int64_t begin, int64_t end, int) {
      const int64_t first = begin * kFlatRow;
      std::array<uint8_t*, N> at;
      for (size_t i = 0; i < N; ++i) {
        at[i] = tensors[i]->template as<uint8_t>() + first * int64_t(dtype_bytes(tensors[i]->dtype));
      }
      f(at, std::min(size, end * kFlatRow) - first);
    });
    return;
  }
  const Rows shape(*tensors[0]);
  cpu.pool.parallel_for(shape.n, rows_per_chunk(shape.d), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      std::array<uint8_t*, N> at;
      for (size_t i = 0; i < N; ++i) at[i] = Rows(*tensors[i]).at(row);
      f(at, shape.d);
    }
  });
}

}  // namespace

void cpu_add(CpuContext& cpu, const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto kernel = cpu.kernels.add[float_index(a.dtype)][float_index(b.dtype)];
  for_pieces<3>(cpu, {&a, &b, &y}, [&](const auto& at, int64_t n) { kernel(at[0], at[1], at[2], n); });
}

void cpu_add_bias(CpuContext& cpu, const Tensor& x, const Tensor& bias, const Tensor& y) {
  const auto kernel = cpu.kernels.add[float_index(x.dtype)][float_index(bias.dtype)];
  const Rows from(x), to(y);
  cpu.pool.parallel_for(from.n, rows_per_chunk(from.d), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernel(from.at(row), bias.data, to.at(row), from.d);
  });
}

void cpu_gated_activation(CpuContext& cpu, Activation act, const Tensor& gate, const Tensor& up, const Tensor& y) {
  const auto& kernels = act == Activation::Silu ? cpu.kernels.silu_mul : cpu.kernels.gelu_tanh_mul;
  const auto kernel = kernels[float_index(gate.dtype)];
  for_pieces<3>(cpu, {&gate, &up, &y}, [&](const auto& at, int64_t n) { kernel(at[0], at[1], at[2], n); });
}

void cpu_softcap(CpuContext& cpu, const Tensor& x, float cap, const Tensor& y) {
  const auto kernel = cpu.kernels.softcap[float_index(x.dtype)];
  for_pieces<2>(cpu, {&x, &y}, [&](const auto& at, int64_t n) { kernel(at[0], cap, at[1], n); });
}

void cpu_cast(CpuContext& cpu, const Tensor& x, const Tensor& y) {
  const auto kernel = cpu.kernels.scale_cast[float_index(x.dtype)][float_index(y.dtype)];
  for_pieces<2>(cpu, {&x, &y}, [&](const auto& at, int64_t n) { kernel(at[0], 1.0f, at[1], n); });
}

}  // namespace loft
