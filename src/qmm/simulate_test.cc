#include "qmm/simulate.h"

#include <gtest/gtest.h>

#include "backend/described_devices.h"
#include "backend/hip/qmm_table.h"

namespace loft {
namespace {

struct Shape {
  int layers;
  std::vector<std::pair<int64_t, int64_t>> products;  // n, k: fused qkv, o, gate, up, down
  int64_t vocab, hidden;
};
const Shape kGemma3_4b = {34, {{4096, 2560}, {2560, 2048}, {10240, 2560}, {10240, 2560}, {2560, 10240}}, 262208, 2560};
const Shape kLlama31_8b = {32, {{6144, 4096}, {4096, 4096}, {14336, 4096}, {14336, 4096}, {4096, 14336}}, 128256, 4096};

std::vector<PassProduct> products(const Shape& shape, DType dtype) {
  std::vector<PassProduct> out;
  const auto add = [&](int64_t n, int64_t k, bool last_row_only) {
    out.push_back({.name = "w",
                   .spec = {.format = {QuantKind::Affine, 4, 64},
                            .x_dtype = dtype,
                            .scale_dtype = dtype,
                            .has_biases = true,
                            .n = n,
                            .k = k},
                   .last_row_only = last_row_only});
  };
  for (int i = 0; i < shape.layers; ++i) {
    for (auto [n, k] : shape.products) add(n, k, false);
  }
  add(shape.vocab, shape.hidden, true);
  return out;
}

QmmStats two_passes(const Shape& shape, DType dtype, QmmPolicy policy, DequantCacheMode mode) {
  const std::vector<PassProduct> list = products(shape, dtype);
  policy.kind = QmmPolicyKind::Published;
  return simulate({.products = list,
                   .rows = 2048,
                   .passes = 2,
                   .device = *described_device("gfx1151"),
                   .policy = policy,
                   .table = hip_qmm_table(),
                   .cache_mode = mode,
                   .cache_limits = {}});
}

TEST(Simulate, GemmaBeforeAndAfterThePublishedChange) {
  const QmmPolicy before{.above_ceiling = QmmAboveCeiling::Cache};
  const QmmStats old = two_passes(kGemma3_4b, DType::BF16, before, DequantCacheMode::Lru);
  EXPECT_EQ(old.cache,
            (DequantCacheStats{.misses = 340, .inserts = 340, .evictions = 334, .entries = 6, .bytes = 241172480}));
  EXPECT_EQ(old.routes[size_t(QmmRoute::DequantGemm)], 340u);
  const QmmStats now = two_passes(kGemma3_4b, DType::BF16, {}, DequantCacheMode::Lru);
  EXPECT_EQ(now.cache, (DequantCacheStats{.bypasses = 340}));
  EXPECT_EQ(now.routes[size_t(QmmRoute::DequantGemmAboveWmmaCeiling)], 340u);
  EXPECT_EQ(now.routes[size_t(QmmRoute::Gemv)], 2u);  // the head, once a pass
}

TEST(Simulate, LlamaInHalfPrecisionUnderLruAndAuto) {
  EXPECT_EQ(two_passes(kLlama31_8b, DType::F16, {}, DequantCacheMode::Lru).cache,
            (DequantCacheStats{.misses = 320, .inserts = 320, .evictions = 318, .entries = 2, .bytes = 234881024}));
  EXPECT_EQ(two_passes(kLlama31_8b, DType::F16, {}, DequantCacheMode::Auto).cache,
            (DequantCacheStats{.bypasses = 320}));
}

TEST(Simulate, OnlyWeightsThatCanReachTheCacheAreInThePlan) {
  const DeviceInfo device = *described_device("gfx1151");
  QmmSpec spec = products(kGemma3_4b, DType::BF16)[0].spec;
  EXPECT_FALSE(can_reach_dequant_cache(spec, device, {}, hip_qmm_table()));
  EXPECT_TRUE(can_reach_dequant_cache(spec, device, {.above_ceiling = QmmAboveCeiling::Cache}, hip_qmm_table()));
  EXPECT_FALSE(can_reach_dequant_cache(spec, device, {.dequant_gemm = false}, hip_qmm_table()));
  spec.x_dtype = DType::F16;
  EXPECT_TRUE(can_reach_dequant_cache(spec, device, {}, hip_qmm_table()));
}

}  // namespace
}  // namespace loft
