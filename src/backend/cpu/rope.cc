// backend/cpu: rotary position embedding (Su et al. 2021, arXiv 2104.09864), one row of x a kernel call.
#include "backend/cpu/cpu_ops.h"

namespace loft {

void cpu_rope(CpuContext& cpu, const RopeArgs& args) {
  const Tensor& x = args.x;  // [m, n_heads, head_dim]
  const auto kernel = cpu.kernels.rope[float_index(x.dtype)];
  const int64_t row_bytes = x.stride[0] * int64_t(dtype_bytes(x.dtype));
  const int32_t* positions = args.positions.as<const int32_t>();
  const float* inv_freq = args.inv_freq.as<const float>();
  cpu.pool.parallel_for(x.dim(0), rows_per_chunk(x.dim(1) * x.dim(2)), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      kernel(x.as<uint8_t>() + row * row_bytes, x.dim(1), x.stride[1], inv_freq, args.inv_freq.dim(0), positions[row],
             args.scale);
    }
  });
}

}  // namespace loft
