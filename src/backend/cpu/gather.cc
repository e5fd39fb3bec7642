// backend/cpu: rows picked by index: embedding from any weight format, plain gather, and keys and values into their
// rings.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/activations.h"
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

namespace {

/// A row as codes, x ~ scale * code, by the rule of group_scale. Returns the scale.
float quantize_row(const float* x, int64_t n, int8_t* codes) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const GroupScale scale = group_scale(largest, kA8Top);
  if (scale.is_zero) {
    std::fill(codes, codes + n, int8_t{0});
    return scale.d;
  }
  // Adding and taking away 1.5 * 2^23 rounds to even, whatever the compiler makes of it.
  constexpr float kRound = 12582912.0f;
  for (int64_t i = 0; i < n; ++i) codes[i] = int8_t(int32_t((x[i] * scale.inverse + kRound) - kRound));
  return scale.d;
}

/// What is stored, and where its rows and their scales go.
struct KvSide {
  const Tensor* from;
  void* rows;
  float* scales;
};

}  // namespace

void cpu_store_kv(CpuContext& cpu, const StoreKvArgs& args) {
  const int64_t n_heads = args.k.dim(1), head_dim = args.k.dim(2);
  const size_t element = dtype_bytes(args.k.dtype);
  // Scratch grows here, in the caller, where a failure may throw.
  for (FloatScratch& scratch : cpu.per_thread) scratch.take(head_dim);
  for (const AttentionSegment& s : args.segments) {
    const KvView& kv = s.kv;
    const bool is_codes = kv.dtype == DType::I8;
    const auto kernel =
        cpu.kernels.scale_cast[float_index(args.k.dtype)][float_index(is_codes ? DType::F32 : kv.dtype)];
    const size_t kv_element = dtype_bytes(kv.dtype);
    const auto store_rows = [&](int64_t begin, int64_t end, int thread) {
      float* const wide = cpu.per_thread[size_t(thread)].take(head_dim);
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t head = 0; head < n_heads; ++head) {
          const int64_t row = head * kv.capacity + (s.n_past + i) % kv.capacity;
          for (const KvSide& side : {KvSide{&args.k, kv.k, kv.k_scales}, KvSide{&args.v, kv.v, kv.v_scales}}) {
            const int64_t at = (s.first_row + i) * side.from->stride[0] + head * side.from->stride[1];
            uint8_t* const to = static_cast<uint8_t*>(side.rows) + size_t(row * head_dim) * kv_element;
            kernel(side.from->as<uint8_t>() + size_t(at) * element, 1.0f, is_codes ? static_cast<void*>(wide) : to,
                   head_dim);
            if (is_codes) side.scales[row] = quantize_row(wide, head_dim, reinterpret_cast<int8_t*>(to));
          }
        }
      }
    };
    cpu.pool.parallel_for(s.n_rows, rows_per_chunk(2 * n_heads * head_dim), store_rows);
  }
}

}  // namespace loft
