// backend/cpu: the row kernels, built for avx512 (flags in src/backend/flags.cmake).
#if defined(__x86_64__)
#define LOFT_SIMD_NAMESPACE simd_avx512
#include "backend/cpu/row_kernels_table.h"

namespace loft {

const RowKernels kRowKernelsAvx512 = LOFT_SIMD_NAMESPACE::make_row_kernels("avx512");

}  // namespace loft
#endif
