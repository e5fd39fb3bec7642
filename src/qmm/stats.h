// qmm: what was routed where, as one snapshot. The same struct comes from a real engine and from the simulation.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backend/qmm_kernel.h"
#include "core/json.h"
#include "qmm/dequant_lru.h"

namespace loft {

/// Weights that were packed into the layout of their kernels (option cpu-repack).
struct PackStats {
  uint64_t weights = 0;
  uint64_t bytes = 0;     // of the packed weights
  uint64_t refusals = 0;  // weights that stay as they lie, for want of memory
  double ms = 0;
};

struct QmmStats {
  std::array<uint64_t, kQmmRoutes> routes{};  // products by route
  DequantCacheStats cache;
  PackStats packed;
  std::map<std::string, uint64_t> kernels;  // products by kernel row
  uint64_t panel_high_water_bytes = 0;
  uint64_t gemm_fallbacks = 0;  // GEMMs that the library refused and loft computed itself
};

/// Counts one product.
void count_product(QmmStats& stats, const QmmKernel& kernel);

/// What was counted between two snapshots of one engine; entries, bytes, packed weights and the high water of panels
/// are those of `after`.
QmmStats counted_since(const QmmStats& after, const QmmStats& before);

/// {"routes": {..}, "cache": {..}, "kernels": {..}, "packed": {..}, "panel_high_water_bytes": n, "gemm_fallbacks": n}
OrderedJson qmm_stats_json(const QmmStats& stats);

/// Lines "qmm ...", for `loft run --stats`.
std::string describe(const QmmStats& stats);

/// "[CPU] qmm dequant cache: hits=0 misses=0 inserts=0 evictions=0 bypassed=0 entries=0 bytes=0": the published exit
/// line.
std::string dequant_cache_line(const DequantCacheStats& stats, const char* tag);

}  // namespace loft
