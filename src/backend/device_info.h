// backend: what a machine has (DeviceInfo) and the option values that routing reads (QmmPolicy). Plain values, so that
// any build can ask for the routes of any machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace loft {

enum class DeviceKind : uint8_t { Cpu, Cuda, Hip };

/// Instruction sets of a CPU, a bit each.
enum CpuIsa : uint32_t {
  kIsaAvx2 = 1u << 0,  // with FMA and F16C
  kIsaAvxVnni = 1u << 1,
  kIsaAvx512 = 1u << 2,  // F, BW, DQ, VL
  kIsaAvx512Vnni = 1u << 3,
  kIsaAvx512Vbmi = 1u << 4,
  kIsaAvx512Bf16 = 1u << 5,
  kIsaNeonDotprod = 1u << 6,
  kIsaNeonI8mm = 1u << 7,
};

struct DeviceInfo {
  DeviceKind kind = DeviceKind::Cpu;
  std::string name;   // "cpu-avx512", "gfx1151", "sm_90"
  uint32_t isa = 0;   // CpuIsa bits
  int n_threads = 1;  // CPU: threads that loft uses; GPU: compute units
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int64_t memory_bytes = 0;  // usable by this process; 0: unknown
};

enum class QmmActivations : uint8_t { A16, A8, F32 };

/// Option values that routing reads (core/options.def, names beginning with qmm_).
struct QmmPolicy {
  std::string forced_kernel;  // option qmm-kernel: the only row that may run; empty: any
  QmmActivations activations = QmmActivations::A16;
  bool explain_routes = false;  // log each new shape's decision once (level Warn, so it shows)
};

}  // namespace loft
