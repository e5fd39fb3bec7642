// backend/cpu: rows picked by index: embedding from any weight format, plain gather, and keys and values into their
// rings.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/qmm_panel16.h"

namespace loft {

void cpu_embed(CpuContext& cpu, const Tensor& ids, const QuantWeight& table, const void* packed, float scale,
               const Tensor& y) {
  const auto kernel = cpu.kernels.scale_cast[float_index(DType::F32)][float_index(y.dtype)];
  const Rows to(y);
  const int32_t* id = ids.as<const int32_t>();
  const size_t element = dtype_bytes(y.dtype);
  cpu.pool.parallel_for(to.n, rows_per_chunk(to.d), [&](int64_t begin, int64_t end, int) {
    constexpr int64_t kRun = 512;  // a multiple of every group
    float run[kRun];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t first = 0; first < table.k; first += kRun) {
        const int64_t count = std::min(kRun, table.k - first);
        if (packed) {
          dequantize_panel16_run(table, packed, id[row], first, count, run);
        } else {
          dequantize_run(table, id[row], first, count, run);
        }
        kernel(run, scale, to.at(row) + size_t(first) * element, count);
      }
    }
  });
}

void cpu_gather_rows(CpuContext& cpu, const Tensor& x, const Tensor& rows, const Tensor& y) {
  const Rows from(x), to(y);
  const int32_t* index = rows.as<const int32_t>();
  const size_t row_bytes = size_t(to.d) * dtype_bytes(y.dtype);
  cpu.pool.parallel_for(to.n, rows_per_chunk(to.d), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) std::memcpy(to.at(row), from.at(index[row]), row_bytes);
  });
}

void cpu_store_kv(CpuContext& cpu, const StoreKvArgs& args) {
  const int64_t n_heads = args.k.dim(1), head_dim = args.k.dim(2);
  const size_t element = dtype_bytes(args.k.dtype);
  for (const AttentionSegment& s : args.segments) {
    const auto kernel = cpu.kernels.scale_cast[float_index(args.k.dtype)][float_index(s.kv.dtype)];
    const size_t kv_element = dtype_bytes(s.kv.dtype);
    cpu.pool.parallel_for(s.n_rows, rows_per_chunk(2 * n_heads * head_dim), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t ring_row = (s.n_past + i) % s.kv.capacity;
        for (int64_t head = 0; head < n_heads; ++head) {
          const size_t to = size_t((head * s.kv.capacity + ring_row) * head_dim) * kv_element;
          for (const auto& [from, store] : {std::pair(&args.k, s.kv.k), std::pair(&args.v, s.kv.v)}) {
            const int64_t at = (s.first_row + i) * from->stride[0] + head * from->stride[1];
            kernel(from->as<uint8_t>() + size_t(at) * element, 1.0f, static_cast<uint8_t*>(store) + to, head_dim);
          }
        }
      }
    });
  }
}

}  // namespace loft
