// backend/cpu: the row kernels, built for scalar (flags in src/backend/flags.cmake).
#define LOFT_SIMD_NAMESPACE simd_scalar
#include "backend/cpu/row_kernels_table.h"

namespace loft {

const RowKernels kRowKernelsScalar = LOFT_SIMD_NAMESPACE::make_row_kernels("scalar");

}  // namespace loft
