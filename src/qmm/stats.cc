#include "qmm/stats.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loft {

void count_product(QmmStats& stats, const QmmKernel& kernel) {
  ++stats.routes[size_t(kernel.route)];
  ++stats.kernels[kernel.name];
}

OrderedJson qmm_stats_json(const QmmStats& stats) {
  OrderedJson routes = OrderedJson::object();
  for (int i = 0; i < kQmmRoutes; ++i) routes[route_name(QmmRoute(i))] = stats.routes[size_t(i)];
  OrderedJson kernels = OrderedJson::object();
  for (const auto& [name, count] : stats.kernels) kernels[name] = count;
  const DequantCacheStats& c = stats.cache;
  return {{"routes", routes},
          {"cache",
           {{"hits", c.hits},
            {"misses", c.misses},
            {"inserts", c.inserts},
            {"evictions", c.evictions},
            {"bypasses", c.bypasses},
            {"entries", c.entries},
            {"bytes", c.bytes}}},
          {"kernels", kernels},
          {"panel_high_water_bytes", stats.panel_high_water_bytes},
          {"gemm_fallbacks", stats.gemm_fallbacks}};
}

std::string dequant_cache_line(const DequantCacheStats& s, const char* tag) {
  return fmt::format(
      "[{}] qmm dequant cache: hits={} misses={} inserts={} evictions={} bypassed={} entries={} bytes={}", tag, s.hits,
      s.misses, s.inserts, s.evictions, s.bypasses, s.entries, s.bytes);
}

}  // namespace loft
