// backend/cpu: which table of row kernels a machine gets.
#include "backend/cpu/row_kernels.h"

#include "backend/device_info.h"

namespace loft {

const RowKernels& row_kernels([[maybe_unused]] uint32_t isa) {
#if defined(__x86_64__)
  if (isa & kIsaAvx512) return kRowKernelsAvx512;
  if (isa & kIsaAvx2) return kRowKernelsAvx2;
#elif defined(__aarch64__)
  // Every such machine has NEON; only --cpu-isa scalar, or one older than ARMv8.2, has no bits.
  if (isa & kIsaNeonDotprod) return kRowKernelsNeon;
#endif
  return kRowKernelsScalar;
}

}  // namespace loft
