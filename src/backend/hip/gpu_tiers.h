// backend/hip: what the published system knows of AMD chips, as rows: from how many rows of x dequantize + GEMM beats
// the GEMV, and where its fused kernel ends. Source: docs/quantized_matmul.md, "Published crossovers".
#pragma once
#include <cstdint>
#include <string_view>

#include "backend/device_info.h"

namespace loft {

struct GpuTierRow {
  const char* name;
  int first_gfx, last_gfx;       // chip numbers as written, in hexadecimal: gfx90a is 0x90a
  int min_units, max_units;      // compute units of the chips that this row speaks of
  int64_t small, medium, large;  // crossover in rows of x: n, k <= 2048; <= 4096; larger
  int gemv_columns;              // outputs a tile of the published GEMV
  int64_t fused_ceiling;         // rows from which the fused kernel gives way; 0: never
  bool is_low_cu;                // the fused kernel is not wanted unless forced
};

/// The row of a chip. A chip that no row names gets the last one, which has no fused kernel.
const GpuTierRow& gpu_tier(const DeviceInfo& device, bool force_low_cu);

}  // namespace loft
