// qmm: option values as the plain structs that routing and the cache read.
#pragma once
#include "backend/device_info.h"
#include "core/options.h"
#include "qmm/dequant_lru.h"

namespace loft {

/// Of the published experiment: a Radeon 8060S.
inline constexpr const char* kPublishedDevice = "gfx1151";

/// The device that a name of the command line describes. Error: BadRequest with the nearest known name.
DeviceInfo find_described_device(const std::string& name);

/// The policy for a device of this kind: qmm-policy auto is published on AMD, loft elsewhere. Published thresholds are
/// those of AMD chips, so elsewhere they route as gfx1151 does unless qmm-route-as names another. Error: BadRequest for
/// a qmm-route-as that is unknown or has no published thresholds where they are wanted.
QmmPolicy qmm_policy(const Options& options, DeviceKind kind);

DequantCacheMode dequant_cache_mode(const Options& options);
DequantCacheLimits dequant_cache_limits(const Options& options);

}  // namespace loft
