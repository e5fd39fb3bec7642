#include "qmm/stats.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loft {

void count_product(QmmStats& stats, const QmmKernel& kernel) {
  ++stats.routes[size_t(kernel.route)];
  ++stats.kernels[kernel.name];
}

QmmStats counted_since(const QmmStats& after, const QmmStats& before) {
  QmmStats out = after;
  for (size_t i = 0; i < out.routes.size(); ++i) out.routes[i] -= before.routes[i];
  for (const auto& [name, count] : before.kernels) {
    out.kernels[name] -= count;
    if (out.kernels[name] == 0) out.kernels.erase(name);
  }
  out.cache.hits -= before.cache.hits;
  out.cache.misses -= before.cache.misses;
  out.cache.inserts -= before.cache.inserts;
  out.cache.evictions -= before.cache.evictions;
  out.cache.bypasses -= before.cache.bypasses;
  out.gemm_fallbacks -= before.gemm_fallbacks;
  return out;
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
          {"packed",
           {{"weights", stats.packed.weights},
            {"bytes", stats.packed.bytes},
            {"refusals", stats.packed.refusals},
            {"ms", stats.packed.ms}}},
          {"panel_high_water_bytes", stats.panel_high_water_bytes},
          {"gemm_fallbacks", stats.gemm_fallbacks}};
}

std::string describe(const QmmStats& s) {
  std::string out;
  for (const auto& [name, count] : s.kernels) out += fmt::format("qmm kernel {:<24} {}\n", name, count);
  for (int i = 0; i < kQmmRoutes; ++i) {
    if (s.routes[size_t(i)] > 0)
      out += fmt::format("qmm route {:<28} {}\n", route_name(QmmRoute(i)), s.routes[size_t(i)]);
  }
  const DequantCacheStats& c = s.cache;
  out += fmt::format("qmm cache  hits {}  misses {}  inserts {}  evictions {}  bypasses {}  entries {}  bytes {}\n",
                     c.hits, c.misses, c.inserts, c.evictions, c.bypasses, c.entries, c.bytes);
  const PackStats& p = s.packed;
  if (p.weights + p.refusals > 0) {
    out +=
        fmt::format("qmm packed  weights {}  bytes {}  refusals {}  {:.1f} ms\n", p.weights, p.bytes, p.refusals, p.ms);
  }
  return out + fmt::format("qmm panels  high water {} bytes  gemm fallbacks {}\n", s.panel_high_water_bytes,
                           s.gemm_fallbacks);
}

std::string dequant_cache_line(const DequantCacheStats& s, const char* tag) {
  return fmt::format(
      "[{}] qmm dequant cache: hits={} misses={} inserts={} evictions={} bypassed={} entries={} bytes={}", tag, s.hits,
      s.misses, s.inserts, s.evictions, s.bypasses, s.entries, s.bytes);
}

}  // namespace loft
