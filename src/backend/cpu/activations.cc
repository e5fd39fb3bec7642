// backend/cpu: the plain form of every preparation; the SIMD ones must give the same bytes.
#include "backend/cpu/activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/device_info.h"

namespace loft {

float load_f32(const void* row, DType dtype, int64_t i) {
  if (dtype == DType::F32) {
    float v;
    std::memcpy(&v, static_cast<const uint8_t*>(row) + i * 4, 4);
    return v;
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const uint8_t*>(row) + i * 2, 2);
  return dtype == DType::BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

void store_y(const Tensor& y, int64_t row, int64_t column, float value) {
  const int64_t at = row * y.stride[0] + column;
  if (y.dtype == DType::F32) {
    y.as<float>()[at] = value;
  } else {
    y.as<uint16_t>()[at] = y.dtype == DType::BF16 ? f32_to_bf16(value) : f32_to_f16(value);
  }
}

int64_t vector_blocks(int64_t k, int bits) {
  const int64_t pieces = k * bits / 128;
  return pieces / std::gcd(pieces, int64_t{16});
}

size_t activation_code_bytes(const ActivationKey& key, int64_t m, int64_t k) {
  const size_t row = align64(size_t(m * k) * size_t(planes_of(key.form)));
  if (key.form != ActivationForm::A16Vector) return row;
  const int bits = key.stride == 2 ? 4 : 8;
  return row + size_t(vector_blocks(k, bits)) * (32 / size_t(bits)) * 128;
}

size_t activation_bytes(const ActivationKey& key, int64_t m, int64_t k, DType x_dtype) {
  if (key.form == ActivationForm::F32) return x_dtype == DType::F32 ? 0 : align64(size_t(m * k) * 4);
  return activation_code_bytes(key, m, k) + 2 * align64(size_t(m * (k / key.group)) * 4);
}

size_t cpu_workspace_bytes(const CpuQmmEntry& entry, const QmmSpec& spec, int64_t m, const DeviceInfo& device) {
  const size_t scratch = align64(entry.scratch_bytes(spec, m, device.panel_bytes));
  return activation_bytes(entry.key(spec.format), m, spec.k, spec.x_dtype) + size_t(device.n_threads) * scratch;
}

void prepare_f32(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  if (x.dtype == DType::F32) return;  // out.f32 is x itself
  const uint16_t* in = x.as<uint16_t>();
  const bool is_bf16 = x.dtype == DType::BF16;
  for (int64_t i = row_begin * out.k; i < row_end * out.k; ++i) {
    out.f32[i] = is_bf16 ? bf16_to_f32(in[i]) : f16_to_f32(in[i]);
  }
}

namespace {

/// Place `at` (0..15) of a step takes q of row r.
void put_code(const ActivationSlice& slice, int r, int64_t step, int at, ActivationForm form, int q) {
  int8_t* const out = slice.codes + step * 16 * slice.planes * slice.rows + r * 4;
  if (form == ActivationForm::A16Words) {
    const int16_t word = int16_t(q);
    std::memcpy(out + at / 2 * 4 * slice.rows + at % 2 * 2, &word, 2);
    return;
  }
  int8_t* const quad = out + at / 4 * 4 * slice.rows + at % 4;
  const int hi = slice.planes == 2 ? (q + 128) >> 8 : q;
  quad[0] = int8_t(hi);
  if (slice.planes == 2) quad[16 * slice.rows] = int8_t(q - 256 * hi);
}

}  // namespace

void prepare_codes_scalar(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out) {
  const int group = out.key.group;
  const float top = top_of(out.key.form);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const ActivationSlice slice = activation_slice(out, row / kSliceRows);
    const int r = int(row - slice.first);
    const uint8_t* in = x.as<uint8_t>() + size_t(row * out.k) * dtype_bytes(x.dtype);
    for (int64_t g = 0; g < out.k / group; ++g) {
      uint32_t largest = 0;
      for (int i = 0; i < group; ++i) {
        largest = std::max(largest, std::bit_cast<uint32_t>(load_f32(in, x.dtype, g * group + i)) & 0x7fffffff);
      }
      const GroupScale scale = group_scale(largest, top);
      int sum = 0;
      for (int i = 0; i < group; ++i) {
        const int64_t step = (g * group + i) / 16;
        const int at = i % 16;
        const int tuple = out.key.form == ActivationForm::A16Words ? 2 : 4;
        const float v = load_f32(in, x.dtype, step * 16 + input_at(tuple, out.key.stride, at));
        const int q = scale.is_zero ? 0 : int(std::nearbyint(v * scale.inverse));
        sum += q;
        put_code(slice, r, step, at, out.key.form, q);
      }
      slice.d[g * slice.rows + r] = scale.d;
      slice.s[g * slice.rows + r] = scale.d * float(sum);
    }
  }
}

}  // namespace loft
