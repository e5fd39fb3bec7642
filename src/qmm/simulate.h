// qmm: passes over a model's products with the selector and the cache's bookkeeping only: no weights, no arithmetic.
#pragma once
#include <span>
#include <string>

#include "backend/device_info.h"
#include "qmm/dequant_lru.h"
#include "qmm/stats.h"

namespace loft {

/// One product of a forward pass, as the engine issues it (q/k/v fused; gate and up apart).
struct PassProduct {
  std::string name;
  QmmSpec spec;
  bool last_row_only = false;  // lm_head in prefill: m is 1
};

struct Simulation {
  std::span<const PassProduct> products;
  int64_t rows = 1;
  int64_t passes = 1;
  DeviceInfo device;
  QmmPolicy policy;
  std::span<const QmmKernel> table;
  DequantCacheMode cache_mode = DequantCacheMode::Auto;
  DequantCacheLimits cache_limits;
};

/// Counters after all passes; panel bytes are not simulated. Error: Unsupported when a product has no row.
QmmStats simulate(const Simulation& simulation);

/// The weights that DequantGemm can touch at some m under this table and policy: what admission `auto` must hold.
bool can_reach_dequant_cache(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy,
                             std::span<const QmmKernel> table);

}  // namespace loft
