// The counters of a real forward pass are those that the simulation gives for the same shape, route by route, and the
// logits do not depend on whether dense weights are kept.
#include <gtest/gtest.h>

#include "model/pass_products.h"
#include "qmm/simulate.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

constexpr int64_t kRows = 40;
constexpr QuantFormat kFormat = {QuantKind::Affine, 4, 64};

struct Setting {
  const char* name;
  QmmPolicy policy;
  DequantCacheOptions cache;
};

std::vector<Setting> settings() {
  QmmPolicy plain, ceiling, cached, dequant;
  ceiling.fused_max_m = 16;
  cached = ceiling;
  cached.above_ceiling = QmmAboveCeiling::Cache;
  dequant.fused = QmmFused::Off;
  dequant.dequant_m_threshold = 8;
  constexpr DequantCacheLimits kAll = {.max_entries = 100};
  return {{"default", plain, {}},
          {"above the ceiling", ceiling, {}},
          {"before the published change, lru", cached, {DequantCacheMode::Lru, {}}},
          {"before the published change, auto", cached, {}},
          {"dequantize, lru", dequant, {DequantCacheMode::Lru, {}}},
          {"dequantize, auto, too many", dequant, {}},
          {"dequantize, auto, all fit", dequant, {DequantCacheMode::Auto, kAll}},
          {"dequantize, off", dequant, {DequantCacheMode::Off, {}}}};
}

struct Passes {
  QmmStats real, simulated;
  std::vector<std::vector<float>> logits;        // of the last row, a pass
  size_t active = 0, active_without_caches = 0;  // after the passes
};

Passes run_passes(const std::filesystem::path& folder, const Setting& setting, int n_passes) {
  CpuBackendOptions options;
  options.policy = setting.policy;
  const std::unique_ptr<Backend> backend = open_cpu_backend(options);
  const std::unique_ptr<Model> model =
      load_model(folder, *backend, {.max_rows = kRows, .max_logit_rows = 1, .dequant_cache = setting.cache});
  const std::vector<int32_t> ids = some_ids(int(kRows));
  const int32_t last = int32_t(kRows - 1);
  Passes out;
  for (int pass = 0; pass < n_passes; ++pass) {
    KvCache cache(*backend, model->kv_shape(DType::F32, kRows, kRows));
    const BatchSequence sequence{.cache = &cache, .first_row = 0, .n_rows = kRows};
    const Tensor logits = model->forward({.tokens = ids, .sequences = {&sequence, 1}, .logit_rows = {&last, 1}});
    out.logits.emplace_back(size_t(logits.size()));
    backend->download(out.logits.back().data(), logits.data, logits.bytes());
  }
  out.real = model->qmm_stats();
  out.active = backend->memory().active_bytes;
  model->clear_caches();
  out.active_without_caches = backend->memory().active_bytes;
  const std::vector<PassProduct> products = pass_products(model->config(), kFormat, DType::F32);
  out.simulated = simulate({.products = products,
                            .rows = kRows,
                            .passes = n_passes,
                            .device = backend->device(),
                            .policy = backend->policy(),
                            .table = backend->qmm_table(),
                            .cache_mode = setting.cache.mode,
                            .cache_limits = setting.cache.limits});
  return out;
}

TEST(QmmCounters, ARealPassCountsWhatTheSimulationCounts) {
  TempFolder temp;
  SynthRequest request = tiny_request(tiny_llama());
  request.format = kFormat;
  synth_checkpoint(request, temp / "m");
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    const Passes p = run_passes(temp / "m", setting, 2);
    EXPECT_EQ(p.real.routes, p.simulated.routes);
    EXPECT_EQ(p.real.kernels, p.simulated.kernels);
    EXPECT_EQ(p.real.cache, p.simulated.cache);
    EXPECT_EQ(p.real.gemm_fallbacks, 0u);
    EXPECT_EQ(p.logits[0], p.logits[1]);
    EXPECT_EQ(p.active - p.active_without_caches, p.real.cache.bytes) << "what the cache says, it holds";
  }
}

TEST(QmmCounters, AutoPinsNothingWhereTheWeightsDoNotFit) {
  TempFolder temp;
  SynthRequest request = tiny_request(tiny_llama());
  request.format = kFormat;
  synth_checkpoint(request, temp / "m");
  const std::vector<Setting> all = settings();
  const Passes lru = run_passes(temp / "m", all[4], 2), automatic = run_passes(temp / "m", all[5], 2);
  EXPECT_EQ(lru.real.cache.hits, 0u);
  EXPECT_EQ(lru.real.cache.misses, 20u);  // 2 passes of 2 layers of 5 weights
  EXPECT_EQ(lru.real.cache.entries, 8u);
  EXPECT_EQ(automatic.real.cache, (DequantCacheStats{.bypasses = 20}));
  EXPECT_EQ(automatic.logits, lru.logits);
  const Passes kept = run_passes(temp / "m", all[6], 2);
  EXPECT_EQ(kept.real.cache.hits, 10u);
  EXPECT_EQ(kept.logits, lru.logits);
}

}  // namespace
}  // namespace loft
