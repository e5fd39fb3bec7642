// backend/cpu, tests and benches only: seeded weights whose arrays end at a guard page, seeded activations, the host's
// instruction sets, and the bound on a row's error (derived in docs/numerics.md).
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "backend/device_info.h"
#include "backend/qmm_kernel.h"
#include "core/error.h"
#include "quant/affine.h"
#include "quant/format.h"
#include "quant/mxfp.h"

namespace loft::testing {

/// Bytes that end `unused_tail` bytes before a page which cannot be read: one byte too far is a signal. Move-only.
class GuardedBytes {
 public:
  GuardedBytes() = default;
  GuardedBytes(size_t size, size_t unused_tail) : size_(size) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const size_t usable = (size + unused_tail + page - 1) / page * page;
    map_bytes_ = usable + page;
    void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LOFT_CHECK(map != MAP_FAILED);
    map_ = static_cast<uint8_t*>(map);
    LOFT_CHECK(mprotect(map_ + usable, page, PROT_NONE) == 0);
    data_ = map_ + usable - unused_tail - size;
  }
  GuardedBytes(GuardedBytes&& other) noexcept { swap(other); }
  GuardedBytes& operator=(GuardedBytes&& other) noexcept {
    GuardedBytes taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~GuardedBytes() {
    if (map_) munmap(map_, map_bytes_);
  }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void swap(GuardedBytes& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(map_bytes_, other.map_bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  uint8_t* map_ = nullptr;
  size_t map_bytes_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

/// float values as elements of `dtype`, rounded; and back.
inline void put_float(uint8_t* at, DType dtype, float value) {
  if (dtype == DType::F32) {
    std::memcpy(at, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::BF16 ? f32_to_bf16(value) : f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}
inline std::vector<uint8_t> as_dtype(std::span<const float> values, DType dtype) {
  std::vector<uint8_t> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) put_float(bytes.data() + i * dtype_bytes(dtype), dtype, values[i]);
  return bytes;
}

struct TestWeight {
  GuardedBytes words, scales, biases;
  QuantWeight view;
};

struct TestWeightOptions {
  QuantFormat format;
  int64_t n = 16, k = 64;
  DType scale_dtype = DType::F16;  // affine scales and biases; Dense: the weight
  uint32_t seed = 1;
  size_t unused_tail = 0;  // shifts the base address, so that every alignment occurs
  bool all_codes_max = false;
};

namespace detail {

inline void fill_codes(const TestWeightOptions& o, TestWeight& w, std::mt19937& rng) {
  for (size_t i = 0; i < w.words.size(); ++i) {
    uint8_t byte = uint8_t(rng() >> 11);
    if (o.format.kind == QuantKind::Mxfp8 && (byte & 0x7f) == 0x7f) byte &= 0xbf;  // not NaN
    w.words.data()[i] = o.all_codes_max ? 0xff : byte;
  }
}

inline void fill_scales(const TestWeightOptions& o, TestWeight& w, std::mt19937& rng) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  if (o.format.kind != QuantKind::Affine) {
    // Powers of two around 1 (E8M0), or positive E4M3 numbers without NaN.
    for (size_t i = 0; i < w.scales.size(); ++i) {
      w.scales.data()[i] = o.format.kind == QuantKind::Nvfp4 ? uint8_t(rng() % 0x7f) : uint8_t(120 + rng() % 15);
    }
    return;
  }
  const size_t bytes = dtype_bytes(o.scale_dtype);
  const float top = float((1 << o.format.bits) - 1);
  for (size_t i = 0; i < w.scales.size() / bytes; ++i) {
    const float scale = uniform(rng) / top;
    put_float(w.scales.data() + i * bytes, o.scale_dtype, scale);
    put_float(w.biases.data() + i * bytes, o.scale_dtype, -scale * top * (0.5f + 0.1f * uniform(rng)));
  }
}

}  // namespace detail

inline TestWeight make_test_weight(const TestWeightOptions& o) {
  std::mt19937 rng(o.seed);
  TestWeight w;
  const bool is_affine = o.format.kind == QuantKind::Affine;
  const bool is_dense = o.format.kind == QuantKind::Dense;
  w.view = {.format = o.format, .n = o.n, .k = o.k, .scale_dtype = is_affine ? o.scale_dtype : DType::U8};
  if (is_dense) w.view.dense_dtype = o.scale_dtype;
  w.words = GuardedBytes(size_t(o.n) * word_row_bytes(w.view), o.unused_tail);
  if (is_dense) {
    std::normal_distribution<float> normal;
    const size_t bytes = dtype_bytes(o.scale_dtype);
    for (int64_t i = 0; i < o.n * o.k; ++i) put_float(w.words.data() + size_t(i) * bytes, o.scale_dtype, normal(rng));
    w.view.words = w.words.data();
    return w;
  }
  w.scales = GuardedBytes(size_t(o.n) * scale_row_bytes(w.view), o.unused_tail);
  if (is_affine) w.biases = GuardedBytes(w.scales.size(), o.unused_tail);
  detail::fill_codes(o, w, rng);
  detail::fill_scales(o, w, rng);
  w.view.words = w.words.data();
  w.view.scales = w.scales.data();
  w.view.biases = is_affine ? w.biases.data() : nullptr;
  if (o.format.kind == QuantKind::Nvfp4) w.view.global_scale = 0.375f;
  return w;
}

/// x [m, k], about Gaussian, one value in 300 twenty times as large; every value is exact in `dtype`.
inline std::vector<float> make_test_x(int64_t m, int64_t k, DType dtype, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t(m * k));
  for (float& v : x) {
    v = normal(rng) * (rng() % 300 == 0 ? 20.0f : 1.0f);
    if (dtype == DType::BF16) v = bf16_to_f32(f32_to_bf16(v));
    if (dtype == DType::F16) v = f16_to_f32(f32_to_f16(v));
  }
  return x;
}

/// Scale of a group of mxfp4 or nvfp4.
inline double fp4_scale(const QuantWeight& w, int64_t group) {
  const uint8_t code = static_cast<const uint8_t*>(w.scales)[group];
  return w.format.kind == QuantKind::Nvfp4 ? e4m3_to_f32(code) * w.global_scale : e8m0_to_f32(code);
}

/// For each element [m, n], the largest |y - reference| that a right kernel with f32 outputs can show:
/// Fixed point rounds x of a group by at most max|x| / (2 top); the rest is the f32 rounding of at most k / 16 + 2 k /
/// group + 24 sums whose terms are bounded by |x| (|scale| code + |bias|).
inline std::vector<double> error_bound(std::span<const float> x, const QuantWeight& w, double top) {
  const int64_t k = w.k;
  const int64_t m = int64_t(x.size()) / k;
  const bool is_affine = w.format.kind == QuantKind::Affine;
  const bool is_fp4 = top > 0 && (w.format.kind == QuantKind::Mxfp4 || w.format.kind == QuantKind::Nvfp4);
  const int64_t group = w.format.kind == QuantKind::Dense ? 32 : w.format.group;
  const double rounding = (double(k) / 16 + 2.0 * double(k / group) + 24) * 0x1p-24;
  std::vector<double> bound(size_t(m * w.n));
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t n = 0; n < w.n; ++n) {
    dequantize_run(w, n, 0, k, row.data());
    for (int64_t i = 0; i < m; ++i) {
      const float* xi = x.data() + i * k;
      double sum = 0;
      for (int64_t g = 0; g * group < k; ++g) {
        const double bias = is_affine ? std::fabs(load_float(w.biases, w.scale_dtype, n * (k / group) + g))
                            : is_fp4  ? 6.0 * std::fabs(fp4_scale(w, n * (k / group) + g))
                                      : 0.0;
        double largest = 0, sum_w = 0, sum_terms = 0;
        for (int64_t j = g * group; j < std::min(k, (g + 1) * group); ++j) {
          largest = std::max(largest, double(std::fabs(xi[j])));
          sum_w += std::fabs(row[size_t(j)]);
          sum_terms += std::fabs(double(xi[j])) * (std::fabs(double(row[size_t(j)])) + 2 * bias);
        }
        sum += rounding * sum_terms +
               (top > 0 ? sum_w * largest / (2 * top) * 1.001 + largest * 0x1p-24 * double(group) * bias : 0.0);
      }
      bound[size_t(i * w.n + n)] = sum;
    }
  }
  return bound;
}

inline QmmSpec test_spec(const QuantWeight& w, DType x_dtype) {
  return {.format = w.format,
          .x_dtype = x_dtype,
          .scale_dtype = w.format.kind == QuantKind::Dense ? w.dense_dtype : w.scale_dtype,
          .has_biases = w.biases != nullptr,
          .transposed = true,
          .n = w.n,
          .k = w.k};
}

}  // namespace loft::testing
