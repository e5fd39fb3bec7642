// backend/cpu: the row kernels, built for 64-bit ARM, whose compilers need no flags for NEON.
#if defined(__aarch64__)
#define LOFT_SIMD_NEON
#define LOFT_SIMD_NAMESPACE simd_neon
#include "backend/cpu/row_kernels_table.h"

namespace loft {

const RowKernels kRowKernelsNeon = LOFT_SIMD_NAMESPACE::make_row_kernels("neon");

}  // namespace loft
#endif
