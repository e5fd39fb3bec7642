// backend/cpu: RMS norm (Zhang and Sennrich 2019, arXiv 1910.07467), one row a kernel call.
#include "backend/cpu/cpu_ops.h"

namespace loft {

void cpu_rms_norm(CpuContext& cpu, const RmsNormArgs& args) {
  const auto kernel = cpu.kernels.rms_norm[float_index(args.x.dtype)][float_index(args.weight.dtype)];
  const Rows x(args.x), y(args.y);
  cpu.pool.parallel_for(x.n, rows_per_chunk(x.d), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      kernel(x.at(row), args.weight.data, y.at(row), x.d, args.eps, args.weight_offset);
    }
  });
}

}  // namespace loft
