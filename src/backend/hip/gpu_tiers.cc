#include "backend/hip/gpu_tiers.h"

#include <charconv>
#include <climits>

namespace loft {
namespace {

// First row that holds the chip and its compute units. gfx1150..1152 count as low up to 16 units, all RDNA 3 up to 8.
constexpr GpuTierRow kTiers[] = {
    {"RDNA 2", 0x1030, 0x1036, 0, INT_MAX, 28, 20, 14, 8, 0, false},
    {"RDNA 3.5 low-CU", 0x1150, 0x1152, 0, 16, 16, 12, 8, 4, 128, true},
    {"RDNA 3 low-CU", 0x1100, 0x1153, 0, 8, 16, 12, 8, 4, 0, true},
    {"RDNA 3.5", 0x1150, 0x1152, 17, INT_MAX, 36, 24, 16, 16, 128, false},
    {"RDNA 3", 0x1100, 0x1153, 9, 16, 36, 24, 16, 8, 0, false},
    {"RDNA 3", 0x1100, 0x1153, 17, INT_MAX, 36, 24, 16, 16, 0, false},
    {"RDNA 4", 0x1200, 0x1201, 0, INT_MAX, 40, 28, 18, 16, 0, false},
    {"CDNA", 0x908, 0x950, 0, INT_MAX, 20, 14, 10, 16, 0, false},
    {"other", 0, INT_MAX, 0, INT_MAX, 28, 20, 14, 8, 0, false},
};
constexpr const GpuTierRow& kForcedLowCu35 = kTiers[1];
constexpr const GpuTierRow& kForcedLowCu = kTiers[2];

int gfx_number(std::string_view name) {
  int number = 0;
  if (name.starts_with("gfx")) std::from_chars(name.data() + 3, name.data() + name.size(), number, 16);
  return number;
}

bool holds(const GpuTierRow& row, int gfx) {
  return gfx >= row.first_gfx && gfx <= row.last_gfx;
}

}  // namespace

const GpuTierRow& gpu_tier(const DeviceInfo& device, bool force_low_cu) {
  const int gfx = gfx_number(device.name);
  if (force_low_cu && holds(kForcedLowCu35, gfx)) return kForcedLowCu35;
  if (force_low_cu && holds(kForcedLowCu, gfx)) return kForcedLowCu;
  for (const GpuTierRow& row : kTiers) {
    if (holds(row, gfx) && device.compute_units >= row.min_units && device.compute_units <= row.max_units) return row;
  }
  return kTiers[std::size(kTiers) - 1];
}

}  // namespace loft
