// backend: DeviceInfo of known machines, for tests, `loft routes` and docs/routes.md. Routing asks a description, never
// the machine, so any build can show the routes of any of these.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "backend/device_info.h"
#include "backend/qmm_kernel.h"

namespace loft {

/// One row a machine; names are unique.
std::span<const DeviceInfo> described_devices();
std::optional<DeviceInfo> described_device(std::string_view name);

/// The rows of a kind of machine, in any build; empty where there are none yet.
std::span<const QmmKernel> qmm_table_of(DeviceKind kind);

/// The instruction-set bits as words, "avx2 avx512 avx512_vnni"; "scalar" for none.
std::string isa_text(uint32_t isa);

}  // namespace loft
