// backend: tensors for conformance tests: seeded values on the device, rows with gaps, outputs full of NaN, and
// canaries in the gaps. Test code only.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/registry.h"

namespace loft::conformance {

inline double half_ulp(DType dtype) {
  return dtype == DType::F32 ? 0x1p-24 : dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
}

inline uint64_t round_bits(float x, DType dtype) {
  if (dtype == DType::F16) return f32_to_f16(x);
  if (dtype == DType::BF16) return f32_to_bf16(x);
  return std::bit_cast<uint32_t>(x);
}
inline float widen(const uint8_t* p, DType dtype) {
  uint32_t u = 0;
  std::memcpy(&u, p, dtype_bytes(dtype));
  if (dtype == DType::F16) return f16_to_f32(uint16_t(u));
  if (dtype == DType::BF16) return bf16_to_f32(uint16_t(u));
  return std::bit_cast<float>(u);
}

/// A tensor in device memory whose rows (last dim) lie `gap` elements apart. All bytes start as 0xff: NaN in every
/// float type, and the canary of the gaps.
class DeviceTensor {
 public:
  DeviceTensor(Backend& backend, DType dtype, std::initializer_list<int64_t> dims, int64_t gap = 0)
      : backend_(&backend), tensor_(make_tensor(nullptr, dtype, dims)) {
    const int last = tensor_.rank - 1;
    n_rows_ = tensor_.size() / std::max<int64_t>(1, tensor_.dim(last));
    row_ = tensor_.dim(last) + gap;
    int64_t stride = row_;
    for (int i = last - 1; i >= 0; --i) {
      tensor_.stride[size_t(i)] = stride;
      stride *= tensor_.dim(i);
    }
    element_ = dtype_bytes(dtype);
    image_.assign(size_t(n_rows_ * row_) * element_, 0xff);
    buffer_ = backend.allocate(image_.size());
    tensor_.data = buffer_.data();
    backend.upload(tensor_.data, image_.data(), image_.size());
  }

  /// Seeded normal values times scale, rounded to the dtype.
  DeviceTensor& fill(uint64_t seed, float scale = 1.0f) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(size_t(tensor_.size()));
    for (float& v : values) v = normal(random);
    return set(values);
  }
  DeviceTensor& set(const std::vector<float>& values) {
    for_elements([&](size_t i, uint8_t* p) {
      const uint64_t u = round_bits(values[i], tensor_.dtype);
      std::memcpy(p, &u, element_);
    });
    backend_->upload(tensor_.data, image_.data(), image_.size());
    return *this;
  }
  DeviceTensor& set_ints(const std::vector<int32_t>& values) {
    for_elements([&](size_t i, uint8_t* p) { std::memcpy(p, &values[i], 4); });
    backend_->upload(tensor_.data, image_.data(), image_.size());
    return *this;
  }

  /// Values in row order, from the device; fails when a canary is gone.
  std::vector<float> values() {
    std::vector<float> values(size_t(tensor_.size()));
    const std::vector<uint8_t> now = bytes();
    for_elements([&](size_t i, uint8_t* p) { values[i] = widen(p, tensor_.dtype); });
    for (int64_t r = 0; r < n_rows_; ++r) {
      for (size_t i = size_t(r * row_ + width()) * element_; i < size_t((r + 1) * row_) * element_; ++i) {
        if (now[i] != 0xff) {
          ADD_FAILURE() << "row " << r << " wrote into the gap behind it";
          return values;
        }
      }
    }
    return values;
  }
  std::vector<uint8_t> bytes() {
    backend_->synchronize();
    backend_->download(image_.data(), tensor_.data, image_.size());
    return image_;
  }
  const Tensor& view() const { return tensor_; }
  int64_t width() const { return tensor_.dim(tensor_.rank - 1); }

 private:
  template <class Function>
  void for_elements(Function f) {
    for (int64_t i = 0; i < tensor_.size(); ++i) {
      f(size_t(i), image_.data() + size_t(i / width() * row_ + i % width()) * element_);
    }
  }

  Backend* backend_;
  Tensor tensor_;
  Buffer buffer_;
  std::vector<uint8_t> image_;
  int64_t n_rows_ = 0, row_ = 0;
  size_t element_ = 4;
};

/// |found - wanted| <= half an ulp of the dtype (rounded once) + f32_ulps of f32 at the magnitude of the terms.
inline void expect_close(const std::vector<float>& found, const std::vector<double>& wanted, DType dtype,
                         double magnitude, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double rounding = std::max(std::abs(wanted[i]), dtype == DType::F16 ? 0x1p-14 : 0.0) * half_ulp(dtype) * 1.01;
    const double tolerance = rounding + magnitude * 0x1p-24;
    ASSERT_LE(std::abs(double(found[i]) - wanted[i]), tolerance)
        << what << ", element " << i << ": found " << found[i] << ", wanted " << wanted[i];
  }
}

/// Every backend of this build; the CPU once for each family of instruction sets that it has.
struct Machine {
  std::string name;
  std::string device;
  BackendOptions options;
};
inline std::vector<Machine> machines() {
  std::vector<Machine> all;
  for (const BackendRow& row : backend_rows()) {
    all.push_back({row.name, row.name, {}});
    if (std::string(row.name) != "cpu") continue;
    all.back().options.cpu.threads = 3;
    for (const char* isa : {"scalar", "avx2"}) {
      BackendOptions options;
      options.cpu.isa = isa;
      options.cpu.threads = 2;
      try {
        open_backend("cpu", options);
      } catch (const Error&) {
        continue;  // this CPU lacks it
      }
      all.push_back({std::string("cpu_") + isa, "cpu", options});
    }
  }
  return all;
}

/// A test that runs once on every machine, with that machine's backend open.
class MachineTest : public testing::TestWithParam<Machine> {
 protected:
  void SetUp() override { backend_ = open_backend(GetParam().device, GetParam().options); }
  Backend& backend() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace loft::conformance
