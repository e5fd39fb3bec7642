#include "qmm/policy.h"

#include <algorithm>

namespace loft {
namespace {

constexpr uint64_t kMostPanelBytes = uint64_t(1) << 40;  // larger ones change nothing

}  // namespace

QmmPolicy qmm_policy(const Options& o, DeviceKind kind) {
  const bool is_published = o.qmm_policy == "published" || (o.qmm_policy == "auto" && kind == DeviceKind::Hip);
  QmmPolicy p;
  p.kind = is_published ? QmmPolicyKind::Published : QmmPolicyKind::Loft;
  p.fused = o.qmm_fused == "off" ? QmmFused::Off : o.qmm_fused == "force" ? QmmFused::Force : QmmFused::Auto;
  if (o.qmm_fused_max_m) p.fused_max_m = int64_t(*o.qmm_fused_max_m);
  p.dequant_gemm = o.qmm_dequant_gemm;
  if (o.qmm_dequant_m_threshold) p.dequant_m_threshold = int64_t(*o.qmm_dequant_m_threshold);
  p.above_ceiling = o.qmm_above_ceiling == "cache" ? QmmAboveCeiling::Cache : QmmAboveCeiling::Bypass;
  if (o.qmm_panel_bytes) p.panel_bytes = int64_t(std::min<uint64_t>(*o.qmm_panel_bytes, kMostPanelBytes));
  p.force_low_cu = o.force_low_cu;
  p.forced_kernel = o.qmm_kernel;
  p.activations = o.qmm_activations == "f32"  ? QmmActivations::F32
                  : o.qmm_activations == "a8" ? QmmActivations::A8
                                              : QmmActivations::A16;
  p.explain_routes = o.explain_routes;
  return p;
}

DequantCacheMode dequant_cache_mode(const Options& o) {
  if (o.qmm_dequant_cache == "off") return DequantCacheMode::Off;
  return o.qmm_dequant_cache == "lru" ? DequantCacheMode::Lru : DequantCacheMode::Auto;
}

DequantCacheLimits dequant_cache_limits(const Options& o) {
  return {.max_entries = o.qmm_dequant_cache_size, .max_bytes = o.qmm_dequant_cache_max_bytes};
}

}  // namespace loft
