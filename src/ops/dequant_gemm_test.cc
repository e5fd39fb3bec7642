// ops: dequantize + GEMM in real products: the published cases of the cache's counters, and equal bytes wherever the
// dense rows come from.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/test_product.h"

namespace loft {
namespace {

using Product = testing::TestProduct;
using Shape = testing::ProductShape;

bool has_fused_row() {
  constexpr uint32_t kNeeds = kIsaAvx512 | kIsaAvx512Vnni | kIsaAvx512Vbmi;
  return (open_cpu_backend({})->device().isa & kNeeds) == kNeeds;
}
QmmPolicy ceiling_of(int64_t m) {
  QmmPolicy policy;
  policy.fused_max_m = m;
  return policy;
}
QmmPolicy dequant_from(int64_t m) {
  QmmPolicy policy;
  policy.fused = QmmFused::Off;
  policy.dequant_m_threshold = m;
  return policy;
}
DequantCacheStats bypasses(uint64_t n) {
  return {.bypasses = n};
}

/// Seen to fail with the route of the first row of cpu/qmm_table.cc made DequantGemm.
TEST(QmmDequantCache, AboveTheCeilingOneBypassIsCountedAndNothingElseMoves) {
  if (!has_fused_row()) GTEST_SKIP() << "no fused row on this CPU, so no ceiling";
  for (const auto& [shape, max_m] : {std::pair(Shape{256, 4096, 4096}, 128), std::pair(Shape{64, 1024, 1024}, 32)}) {
    Product p(shape, DType::BF16, ceiling_of(max_m));
    EXPECT_EQ(p.cache(), DequantCacheStats{}) << "before the first product";
    const std::vector<uint8_t> first = p.run();
    EXPECT_EQ(p.route(), QmmRoute::DequantGemmAboveWmmaCeiling);
    EXPECT_EQ(p.cache(), bypasses(1));
    EXPECT_EQ(p.run(), first);
    EXPECT_EQ(p.cache(), bypasses(2));
  }
}

TEST(QmmDequantCache, TheForcedFusedKernelMovesNothing) {
  if (!has_fused_row()) GTEST_SKIP() << "no fused row on this CPU";
  QmmPolicy policy = ceiling_of(32);
  policy.fused = QmmFused::Force;
  Product p({64, 1024, 1024}, DType::BF16, policy);
  p.run();
  EXPECT_EQ(p.route(), QmmRoute::WmmaDense);
  EXPECT_EQ(p.cache(), DequantCacheStats{});
}

TEST(QmmDequantCache, DequantGemmMissesOnceAndThenHits) {
  Product p({128, 1024, 1024}, DType::F16, dequant_from(1));
  const std::vector<uint8_t> first = p.run();
  EXPECT_EQ(p.route(), QmmRoute::DequantGemm);
  constexpr uint64_t kDense = 2 << 20;
  EXPECT_EQ(p.cache(), (DequantCacheStats{.misses = 1, .inserts = 1, .entries = 1, .bytes = kDense}));
  EXPECT_EQ(p.run(), first);
  EXPECT_EQ(p.cache(), (DequantCacheStats{.hits = 1, .misses = 1, .inserts = 1, .entries = 1, .bytes = kDense}));
  p.workspace.cache->clear();
  EXPECT_EQ(p.cache().entries, 0u);
  EXPECT_EQ(p.run(), first);
  EXPECT_EQ(p.cache().misses, 2u);
}

TEST(QmmDequantCache, SwitchedOffItStillCountsBypasses) {
  for (const DequantCacheOptions& cache :
       {DequantCacheOptions{.mode = DequantCacheMode::Off}, DequantCacheOptions{.limits = {.max_entries = 0}},
        DequantCacheOptions{.limits = {.max_bytes = 1 << 20}}}) {
    Product p({128, 1024, 1024}, DType::F16, dequant_from(1), cache);  // 2 MiB dense: `auto` bypasses at 1 MiB
    p.run();
    EXPECT_EQ(p.cache(), bypasses(1));
  }
}

/// Miss, hit, bypass, above the ceiling and the whole matrix in a temporary run over one partition of n.
TEST(QmmDequantCache, TheBytesDoNotDependOnWhereTheDenseRowsAre) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    const Shape shape{70, 1000, 704};
    Product cached(shape, dtype, dequant_from(1), {.mode = DequantCacheMode::Lru});
    Product bypassed(shape, dtype, dequant_from(1), {.mode = DequantCacheMode::Off});
    QmmPolicy policy = dequant_from(1);
    policy.panel_bytes = 0;
    Product whole(shape, dtype, policy, {.mode = DequantCacheMode::Off});
    const std::vector<uint8_t> miss = cached.run();
    EXPECT_EQ(cached.run(), miss) << dtype_name(dtype) << " hit";
    EXPECT_EQ(bypassed.run(), miss) << dtype_name(dtype) << " bypass";
    EXPECT_EQ(whole.run(), miss) << dtype_name(dtype) << " whole";
    if (!has_fused_row()) continue;
    Product above(shape, dtype, ceiling_of(16));
    EXPECT_EQ(above.run(), miss) << dtype_name(dtype) << " above";
    EXPECT_EQ(above.route(), QmmRoute::DequantGemmAboveWmmaCeiling);
    policy = ceiling_of(16);
    policy.above_ceiling = QmmAboveCeiling::Cache;
    Product before(shape, dtype, policy);
    EXPECT_EQ(before.run(), miss) << dtype_name(dtype) << " before the published change";
    EXPECT_EQ(before.cache().misses, 1u);
  }
}

TEST(QmmDequantCache, TheWholeMatrixIsFreedAfterTheProduct) {
  QmmPolicy policy = dequant_from(1);
  policy.panel_bytes = 0;
  Product p({40, 1024, 1024}, DType::F16, policy, {.mode = DequantCacheMode::Off});
  p.backend->reset_peak();
  const MemoryStats before = p.backend->memory();
  p.run();
  const MemoryStats after = p.backend->memory();
  EXPECT_EQ(after.active_bytes, before.active_bytes);
  EXPECT_GE(after.peak_bytes, before.active_bytes + (2 << 20));
}

TEST(QmmDequantCache, PanelsTakeNoMemoryBeyondTheWorkspace) {
  Product p({40, 1024, 1024}, DType::F16, dequant_from(1), {.mode = DequantCacheMode::Off});
  p.backend->reset_peak();
  const size_t before = p.backend->memory().active_bytes;
  p.run();
  EXPECT_EQ(p.backend->memory().peak_bytes, before);
  const QmmStats stats = p.stats();
  EXPECT_GT(stats.panel_high_water_bytes, 0u);
  EXPECT_LE(stats.panel_high_water_bytes, p.workspace.buffer.bytes());
  EXPECT_EQ(stats.gemm_fallbacks, 0u);
}

}  // namespace
}  // namespace loft
