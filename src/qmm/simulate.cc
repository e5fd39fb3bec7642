#include "qmm/simulate.h"

#include "core/error.h"
#include "qmm/explain.h"
#include "qmm/route.h"

namespace loft {
namespace {

DequantKey key_of(uint64_t id, const QmmSpec& spec) {
  return {.weight_id = id,
          .kind = spec.format.kind,
          .bits = spec.format.bits,
          .group = spec.format.group,
          .transposed = spec.transposed,
          .dtype = spec.x_dtype};
}

uint64_t dense_bytes(const QmmSpec& spec) {
  return uint64_t(spec.n) * uint64_t(spec.k) * dtype_bytes(spec.x_dtype);
}

// As the engine moves the counters: a miss decodes and inserts; a route without the cache counts one bypass.
void touch_cache(DequantLru& lru, QmmRoute route, const DequantKey& key, uint64_t bytes) {
  if (route == QmmRoute::DequantGemmAboveWmmaCeiling) lru.count_bypass();
  if (route == QmmRoute::DequantGemm && lru.look_up(key) == DequantLru::Answer::Miss) lru.insert(key, bytes);
}

}  // namespace

bool can_reach_dequant_cache(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy,
                             std::span<const QmmKernel> table) {
  const Layout layout = choose_layout(spec, device, policy, table);
  for (int64_t m = 1; m < INT_MAX;) {
    const RouteDecision d = select_qmm_route({spec, m}, layout, device, policy, table);
    if (d.kernel && d.kernel->route == QmmRoute::DequantGemm) return true;
    m = d.same.hi + 1;
  }
  return false;
}

QmmStats simulate(const Simulation& s) {
  DequantLru lru(s.cache_mode, s.cache_limits);
  std::vector<PlannedWeight> plan;
  for (uint64_t i = 0; i < s.products.size(); ++i) {
    const QmmSpec& spec = s.products[i].spec;
    if (can_reach_dequant_cache(spec, s.device, s.policy, s.table))
      plan.push_back({key_of(i, spec), dense_bytes(spec)});
  }
  lru.set_plan(plan);
  QmmStats stats;
  for (int64_t pass = 0; pass < s.passes; ++pass) {
    for (uint64_t i = 0; i < s.products.size(); ++i) {
      const PassProduct& p = s.products[i];
      const QmmProblem problem{p.spec, p.last_row_only ? 1 : s.rows};
      const Layout layout = choose_layout(p.spec, s.device, s.policy, s.table);
      const RouteDecision d = select_qmm_route(problem, layout, s.device, s.policy, s.table);
      if (!d.kernel) fail(Code::Unsupported, "{}: no row serves: {}", p.name, explain(problem, s.device, d));
      count_product(stats, *d.kernel);
      touch_cache(lru, d.kernel->route, key_of(i, p.spec), dense_bytes(p.spec));
    }
  }
  stats.cache = lru.stats();
  return stats;
}

}  // namespace loft
