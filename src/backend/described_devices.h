// backend: DeviceInfo of known machines, for tests, `loft routes` and docs/routes.md. Routing asks a description, never
// the machine, so any build can show the routes of any of these.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "backend/device_info.h"

namespace loft {

/// One row a machine; names are unique.
std::span<const DeviceInfo> described_devices();
std::optional<DeviceInfo> described_device(std::string_view name);

/// The instruction-set bits as words, "avx2 avx512 avx512_vnni"; "scalar" for none.
std::string isa_text(uint32_t isa);

}  // namespace loft
