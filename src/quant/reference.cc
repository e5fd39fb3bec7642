// quant: dequantize and a triple loop in double. See reference.h.
#include "quant/reference.h"

#include <cmath>

#include "core/error.h"

namespace loft {
namespace {

std::vector<double> matmul(std::span<const float> x, const QuantWeight& w, bool absolute) {
  LOFT_CHECK_MSG(w.k > 0 && x.size() % size_t(w.k) == 0, "{} elements of x, k {}", x.size(), w.k);
  const int64_t m = int64_t(x.size()) / w.k;
  std::vector<double> y(size_t(m * w.n));
  std::vector<float> weights(size_t(w.k));
  for (int64_t col = 0; col < w.n; ++col) {
    dequantize_run(w, col, 0, w.k, weights.data());
    for (int64_t row = 0; row < m; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < w.k; ++i) {
        const double product = double(x[size_t(row * w.k + i)]) * double(weights[size_t(i)]);
        sum += absolute ? std::fabs(product) : product;
      }
      y[size_t(row * w.n + col)] = sum;
    }
  }
  return y;
}

}  // namespace

std::vector<float> reference_dequantize(const QuantWeight& w) {
  std::vector<float> weights(size_t(w.n * w.k));
  for (int64_t row = 0; row < w.n; ++row) dequantize_run(w, row, 0, w.k, weights.data() + row * w.k);
  return weights;
}

std::vector<double> reference_matmul(std::span<const float> x, const QuantWeight& w) {
  return matmul(x, w, false);
}

std::vector<double> reference_abs_matmul(std::span<const float> x, const QuantWeight& w) {
  return matmul(x, w, true);
}

}  // namespace loft
