// ops, tests only: one product of a layer, prepared as a model prepares it, with a cache of its own.
#pragma once
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/qmm_test_data.h"
#include "ops/linear.h"

namespace loft::testing {

struct ProductShape {
  int64_t m, n, k;
};

struct TestProduct {
  ProductShape shape;
  DType dtype;
  std::unique_ptr<Backend> backend;
  TestWeight weight;  // bf16 scales and biases
  Linear layer;
  LinearWorkspace workspace;

  TestProduct(const ProductShape& s, DType x_dtype, const QmmPolicy& policy, const DequantCacheOptions& cache = {},
              const QuantFormat& format = {QuantKind::Affine, 4, 64})
      : shape(s), dtype(x_dtype) {
    CpuBackendOptions options;
    options.threads = 2;
    options.policy = policy;
    backend = open_cpu_backend(options);
    weight = make_test_weight({.format = format, .n = s.n, .k = s.k, .scale_dtype = DType::BF16, .seed = 1});
    layer.name = "layers.0.q_proj";
    layer.weight = weight.view;
    LinearPlan plan;
    Linear* const layers[] = {&layer};
    prepare_weights(*backend, plan, layers, dtype, s.m);
    workspace = make_linear_workspace(*backend, plan, cache);
  }

  /// Bytes of x [m, k], seeded.
  std::vector<uint8_t> x() const { return as_dtype(make_test_x(shape.m, shape.k, dtype, 2), dtype); }
  /// Bytes of y [m, n], NaN before the product.
  std::vector<uint8_t> no_y() const {
    return std::vector<uint8_t>(size_t(shape.m * shape.n) * dtype_bytes(dtype), 0xff);
  }

  std::vector<uint8_t> run() {
    std::vector<uint8_t> in = x(), y = no_y();
    linear(*backend, workspace, layer, make_tensor(in.data(), dtype, {shape.m, shape.k}),
           make_tensor(y.data(), dtype, {shape.m, shape.n}));
    return y;
  }
  QmmStats stats() const { return linear_stats(*backend, workspace); }
  DequantCacheStats cache() const { return stats().cache; }
  QmmRoute route() const { return layer.kernel->route; }
};

}  // namespace loft::testing
