// backend/cpu: the row kernels, built for avx2 (flags in src/backend/flags.cmake).
#if defined(__x86_64__)
#define LOFT_SIMD_NAMESPACE simd_avx2
#include "backend/cpu/row_kernels_table.h"

namespace loft {

const RowKernels kRowKernelsAvx2 = LOFT_SIMD_NAMESPACE::make_row_kernels("avx2");

}  // namespace loft
#endif
