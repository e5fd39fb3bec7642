// backend: the list of described machines. Thread counts and caches are those of a typical part of each kind.
#include "backend/described_devices.h"

#include <array>
#include <utility>

#include "backend/cpu/cpu_qmm.h"
#include "backend/hip/qmm_table.h"

namespace loft {
namespace {

constexpr uint32_t kAvx512Vnni = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni;
constexpr int64_t kMiB = 1 << 20;

DeviceInfo cpu(const char* name, uint32_t isa, int n_threads, int64_t l2_bytes, int64_t l3_bytes) {
  return {.kind = DeviceKind::Cpu,
          .name = name,
          .isa = isa,
          .n_threads = n_threads,
          .l2_bytes = l2_bytes,
          .l3_bytes = l3_bytes,
          .memory_bytes = 0};
}

DeviceInfo amd(const char* name, int compute_units, int64_t l2_bytes, bool has_wmma, bool has_fp8) {
  return {.kind = DeviceKind::Hip,
          .name = name,
          .l2_bytes = l2_bytes,
          .panel_bytes = 16 * kMiB,  // not measured
          .compute_units = compute_units,
          .has_wmma = has_wmma,
          .has_fp8 = has_fp8};
}

const std::array kDevices = {
    cpu("cpu-scalar", 0, 4, kMiB / 2, 4 * kMiB),
    cpu("cpu-avx2", kIsaAvx2, 4, kMiB / 4, 8 * kMiB),                              // Haswell to Comet Lake, Zen 1 to 3
    cpu("cpu-avxvnni", kIsaAvx2 | kIsaAvxVnni, 8, 2 * kMiB, 24 * kMiB),            // Alder Lake and later
    cpu("cpu-avx512", kIsaAvx2 | kIsaAvx512, 8, kMiB, 16 * kMiB),                  // Skylake-SP
    cpu("cpu-avx512-vnni", kAvx512Vnni, 8, kMiB, 24 * kMiB),                       // Cascade Lake
    cpu("cpu-icelake", kAvx512Vnni | kIsaAvx512Vbmi, 2, 5 * kMiB / 4, 48 * kMiB),  // Ice Lake-SP
    cpu("cpu-zen4", kAvx512Vnni | kIsaAvx512Vbmi | kIsaAvx512Bf16, 2, kMiB, 32 * kMiB),  // EPYC 9004
    cpu("cpu-neon", kIsaNeonDotprod | kIsaNeonI8mm, 8, kMiB, 32 * kMiB),                 // Graviton 3
    amd("gfx1030", 80, 4 * kMiB, false, false),                                          // Radeon RX 6900 XT
    amd("gfx1100", 96, 6 * kMiB, true, false),                                           // Radeon RX 7900 XTX
    amd("gfx1103", 12, 2 * kMiB, true, false),                                           // Radeon 780M
    amd("gfx1150", 16, 2 * kMiB, true, false),                                           // Radeon 890M
    amd("gfx1151", 40, 2 * kMiB, true, false),                                           // Radeon 8060S
    amd("gfx1201", 64, 8 * kMiB, true, true),                                            // Radeon RX 9070 XT
    amd("gfx942", 304, 4 * kMiB, false, false),                                          // Instinct MI300X
};

constexpr std::array<std::pair<uint32_t, const char*>, 8> kIsaNames = {{
    {kIsaAvx2, "avx2"},
    {kIsaAvxVnni, "avx_vnni"},
    {kIsaAvx512, "avx512"},
    {kIsaAvx512Vnni, "avx512_vnni"},
    {kIsaAvx512Vbmi, "avx512_vbmi"},
    {kIsaAvx512Bf16, "avx512_bf16"},
    {kIsaNeonDotprod, "neon_dotprod"},
    {kIsaNeonI8mm, "neon_i8mm"},
}};

}  // namespace

std::span<const DeviceInfo> described_devices() {
  return kDevices;
}

std::optional<DeviceInfo> described_device(std::string_view name) {
  for (const DeviceInfo& device : kDevices) {
    if (device.name == name) return device;
  }
  return std::nullopt;
}

std::span<const QmmKernel> qmm_table_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Cpu:
      return cpu_qmm_table();
    case DeviceKind::Hip:
      return hip_qmm_table();
    case DeviceKind::Cuda:
      return {};
  }
  return {};
}

std::string isa_text(uint32_t isa) {
  std::string text;
  for (const auto& [bit, word] : kIsaNames) {
    if (!(isa & bit)) continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text.empty() ? "scalar" : text;
}

}  // namespace loft
