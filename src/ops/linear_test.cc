// ops: linear layers on the CPU backend: right products, shared activations, forced rows, errors that explain
// themselves.
#include "ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/qmm_test_data.h"
#include "quant/reference.h"

namespace loft {
namespace {

using testing::TestWeight;
using testing::TestWeightOptions;

std::unique_ptr<Backend> open_cpu(const QmmPolicy& policy = {}) {
  CpuBackendOptions options;
  options.threads = 2;
  options.policy = policy;
  return open_cpu_backend(options);
}

QmmPolicy forced(const char* row) {
  QmmPolicy policy;
  policy.forced_kernel = row;
  return policy;
}

/// y [m, n] of a layer that was prepared for up to 64 rows.
std::vector<float> run(Backend& backend, Linear& layer, std::vector<float> x, int64_t m) {
  LinearWorkspace workspace =
      make_linear_workspace(backend, {.workspace_bytes = prepare_linear(backend, layer, DType::F32, 64)}, {});
  std::vector<float> y(size_t(m * layer.weight.n), NAN);
  linear(backend, workspace, layer, make_tensor(x.data(), DType::F32, {m, layer.weight.k}),
         make_tensor(y.data(), DType::F32, {m, layer.weight.n}));
  return y;
}

Linear layer_of(const TestWeight& w) {
  Linear layer;
  layer.name = "layers.0.q_proj";
  layer.weight = w.view;
  return layer;
}

TEST(Linear, AProductIsThatOfTheReferencePlusTheBias) {
  const std::unique_ptr<Backend> backend = open_cpu();
  for (const QuantFormat& format : {QuantFormat{QuantKind::Affine, 4, 32}, QuantFormat{QuantKind::Affine, 8, 64},
                                    QuantFormat{QuantKind::Dense, 16, 0}, QuantFormat{QuantKind::Mxfp4, 4, 32}}) {
    const TestWeight w = testing::make_test_weight({.format = format, .n = 33, .k = 576});
    std::vector<float> bias = testing::make_test_x(1, 33, DType::F32, 5);
    Linear layer = layer_of(w);
    layer.bias = make_tensor(bias.data(), DType::F32, {33});
    const std::vector<float> x = testing::make_test_x(11, 576, DType::F32, 6);
    const std::vector<float> y = run(*backend, layer, x, 11);
    const std::vector<double> reference = reference_matmul(x, w.view);
    const std::vector<double> bound = testing::error_bound(x, w.view, true);
    for (size_t i = 0; i < y.size(); ++i) {
      const double wanted = reference[i] + bias[i % 33];
      EXPECT_NEAR(y[i], wanted, bound[i] + std::fabs(wanted) * 0x1p-23) << format_name(format) << " at " << i;
    }
  }
}

TEST(Linear, LayersThatShareXGiveTheBytesThatTheyGiveAlone) {
  const std::unique_ptr<Backend> backend = open_cpu();
  std::vector<TestWeight> weights;
  weights.push_back(testing::make_test_weight({.format = {QuantKind::Affine, 4, 32}, .n = 576, .k = 576, .seed = 1}));
  weights.push_back(testing::make_test_weight({.format = {QuantKind::Affine, 4, 32}, .n = 192, .k = 576, .seed = 2}));
  weights.push_back(testing::make_test_weight({.format = {QuantKind::Affine, 8, 32}, .n = 192, .k = 576, .seed = 3}));
  for (int64_t m : {1, 2, 12}) {
    std::vector<float> x = testing::make_test_x(m, 576, DType::F32, 7);
    std::vector<Linear> layers;
    std::vector<std::vector<float>> ys;
    size_t bytes = 0;
    for (const TestWeight& w : weights) {
      layers.push_back(layer_of(w));
      ys.emplace_back(size_t(m * w.view.n), NAN);
      bytes = std::max(bytes, prepare_linear(*backend, layers.back(), DType::F32, 64));
    }
    LinearWorkspace workspace = make_linear_workspace(*backend, {.workspace_bytes = bytes}, {});
    std::vector<Linear*> pointers;
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < layers.size(); ++i) {
      pointers.push_back(&layers[i]);
      outputs.push_back(make_tensor(ys[i].data(), DType::F32, {m, layers[i].weight.n}));
    }
    linear_many(*backend, workspace, pointers, make_tensor(x.data(), DType::F32, {m, 576}), outputs);
    for (size_t i = 0; i < layers.size(); ++i) {
      Linear alone = layer_of(weights[i]);
      const std::vector<float> y = run(*backend, alone, x, m);
      EXPECT_EQ(std::memcmp(y.data(), ys[i].data(), y.size() * 4), 0) << "layer " << i << " m " << m;
    }
  }
}

/// What lets the server batch: a row of x gives the same bytes alone and among others. Seen to fail with add_groups of
/// qmm_vector_avx512.cc adding the bias term before the product.
TEST(Linear, ARowAmongOthersGivesTheBytesThatItGivesAlone) {
  const std::unique_ptr<Backend> backend = open_cpu();
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    const TestWeight w = testing::make_test_weight({.format = {QuantKind::Affine, bits, 32}, .n = 50, .k = 576});
    Linear layer = layer_of(w);
    const std::vector<float> x = testing::make_test_x(20, 576, DType::F32, 8);
    const std::vector<float> batch = run(*backend, layer, x, 20);
    for (int64_t r = 0; r < 20; ++r) {
      const std::vector<float> alone = run(*backend, layer, {x.begin() + r * 576, x.begin() + (r + 1) * 576}, 1);
      EXPECT_EQ(std::memcmp(alone.data(), batch.data() + r * 50, 50 * 4), 0) << "bits " << bits << " row " << r;
    }
  }
}

TEST(Linear, AForcedRowRunsAndIsRemembered) {
  const std::unique_ptr<Backend> backend = open_cpu(forced("qmm_any_f32_scalar"));
  const TestWeight w = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 16, .k = 128});
  Linear layer = layer_of(w);
  run(*backend, layer, testing::make_test_x(3, 128, DType::F32, 1), 3);
  ASSERT_NE(layer.kernel, nullptr);
  EXPECT_STREQ(layer.kernel->name, "qmm_any_f32_scalar");
  EXPECT_GE(layer.same.hi, 64);
}

TEST(Linear, AnUnknownForcedRowIsABadRequestThatListsTheRows) {
  const std::unique_ptr<Backend> backend = open_cpu(forced("qmm_any_f32_scaler"));
  const TestWeight w = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 16, .k = 128});
  Linear layer = layer_of(w);
  try {
    prepare_linear(*backend, layer, DType::F32, 8);
    FAIL() << "prepared";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("qmm_any_f32_scaler"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("qmm_any_f32_scalar"));
  }
}

TEST(Linear, AForcedRowThatDoesNotFitFailsAtLoadWithTheReason) {
  const std::unique_ptr<Backend> backend = open_cpu(forced("qmm_codes_a16_avx512"));
  const TestWeight w = testing::make_test_weight({.format = {QuantKind::Mxfp8, 8, 32}, .n = 16, .k = 128});
  Linear layer = layer_of(w);
  try {
    prepare_linear(*backend, layer, DType::F32, 8);
    FAIL() << "prepared";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unsupported);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("layers.0.q_proj"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("qmm_codes_a16_avx512"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("needs an affine format, mxfp4 or nvfp4"));
  }
}

TEST(Linear, NoRowsOfXNeedNoKernel) {
  const std::unique_ptr<Backend> backend = open_cpu();
  const TestWeight w = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 16, .k = 128});
  Linear layer = layer_of(w);
  EXPECT_TRUE(run(*backend, layer, {}, 0).empty());
}

}  // namespace
}  // namespace loft
