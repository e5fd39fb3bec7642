#include "qmm/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/described_devices.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr uint64_t kMostPanelBytes = uint64_t(1) << 40;  // larger ones change nothing

/// Whose table decides for a device of this kind; empty: its own.
std::string route_as(const Options& o, DeviceKind kind) {
  if (!o.qmm_route_as) return o.qmm_policy == "published" && kind != DeviceKind::Hip ? kPublishedDevice : "";
  const DeviceInfo device = find_described_device(*o.qmm_route_as);
  if (o.qmm_policy == "published" && device.kind != DeviceKind::Hip) {
    fail(Code::BadRequest, "qmm-route-as {}: qmm-policy published has thresholds for AMD devices only", device.name);
  }
  return device.name;
}

}  // namespace

DeviceInfo find_described_device(const std::string& name) {
  if (const std::optional<DeviceInfo> found = described_device(name)) return *found;
  std::vector<std::string> known;
  for (const DeviceInfo& d : described_devices()) known.push_back(d.name);
  const std::string near = nearest_name(name, known);
  fail(Code::BadRequest, "no described device '{}'{}; there are {}", name,
       near.empty() ? "" : fmt::format("; did you mean {}?", near), fmt::join(known, ", "));
}

QmmPolicy qmm_policy(const Options& o, DeviceKind kind) {
  QmmPolicy p;
  p.route_as = route_as(o, kind);
  const DeviceKind decides = p.route_as.empty() ? kind : find_described_device(p.route_as).kind;
  const bool is_published = o.qmm_policy == "published" || (o.qmm_policy == "auto" && decides == DeviceKind::Hip);
  if (o.qmm_policy == "loft" && decides == DeviceKind::Hip) {
    fail(Code::BadRequest,
         "qmm-policy loft: loft has no thresholds of its own for AMD devices, wanted auto or published");
  }
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
  p.repack = o.cpu_repack == "on" ? QmmRepack::On : o.cpu_repack == "auto" ? QmmRepack::Auto : QmmRepack::Off;
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
