// backend: what a machine has (DeviceInfo) and the option values that routing reads (QmmPolicy). Plain values, so that
// any build can ask for the routes of any machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "backend/qmm_kernel.h"

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
  // Of the f32 weights that dequantize + GEMM decodes at a time; CPU: a thread. Measured on Zen 4 (qmm_panels.cc).
  int64_t panel_bytes = 5 << 18;
  // GPUs only.
  int compute_units = 0;
  bool has_wmma = false;  // bf16 matrix instructions that the published fused kernel needs
  bool has_fp8 = false;   // passes the fp8 GEMM probe
  // A library that multiplies dense matrices: always linked on a CPU, found by dlopen on AMD.
  bool has_gemm_library = true;
};

enum class QmmActivations : uint8_t { A16, A8, F32 };

/// Published: the decisions of the published system, to the row. Loft: what loft's own kernels and measurements say.
enum class QmmPolicyKind : uint8_t { Loft, Published };

/// Whether weights are packed into a layout of their kernels, each by itself: at its first product, when it has been
/// read often enough (ops/linear.cc), or never.
enum class QmmRepack : uint8_t { Off, Auto, On };

/// Force re-admits 2..8 rows to the fused kernel and removes its ceiling.
enum class QmmFused : uint8_t { Auto, Off, Force };

/// What happens to a product above the fused kernel's ceiling: Bypass leaves the dequantized-weight cache alone.
enum class QmmAboveCeiling : uint8_t { Bypass, Cache };

/// Option values that routing reads (core/options.def, names beginning with qmm_).
struct QmmPolicy {
  QmmPolicyKind kind = QmmPolicyKind::Loft;
  QmmFused fused = QmmFused::Auto;
  std::optional<int64_t> fused_max_m{};          // rows from which the fused kernel gives way; unset: per device
  bool dequant_gemm = true;                      // allow dequantize + GEMM
  std::optional<int64_t> dequant_m_threshold{};  // unset: the built-in crossover
  QmmAboveCeiling above_ceiling = QmmAboveCeiling::Bypass;
  std::optional<int64_t> panel_bytes{};  // unset: the device's; 0: the whole matrix in a temporary of the call
  bool force_low_cu = false;
  std::string forced_kernel{};  // option qmm-kernel: the only row that may run; empty: any
  // Name of the described device whose table decides the route; this device's rows then carry it out. Empty: its own.
  std::string route_as{};
  std::optional<QmmRoute>
      only_route{};  // set by the router while it carries out such a route: rows of others stand back
  QmmActivations activations = QmmActivations::A16;
  QmmRepack repack = QmmRepack::Off;  // option cpu-repack
  bool explain_routes = false;        // log each new shape's decision once (level Warn, so it shows)
};

}  // namespace loft
