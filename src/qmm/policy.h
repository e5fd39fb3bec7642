// qmm: option values as the plain structs that routing and the cache read.
#pragma once
#include "backend/device_info.h"
#include "core/options.h"
#include "qmm/dequant_lru.h"

namespace loft {

/// The policy for a device of this kind: qmm-policy auto is published on AMD, loft elsewhere.
QmmPolicy qmm_policy(const Options& options, DeviceKind kind);

DequantCacheMode dequant_cache_mode(const Options& options);
DequantCacheLimits dequant_cache_limits(const Options& options);

}  // namespace loft
