// backend/cpu: the parallel loops of every op but the quantized product. Tensors enter as ops/ checked them; rows are
// handed to the row kernels of the machine's instruction set. Nothing is allocated once scratch has its size.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_memory.h"
#include "backend/cpu/row_kernels.h"
#include "backend/cpu/thread_pool.h"

namespace loft {

/// f32 scratch of the heap that only grows, 64-byte aligned; contents are lost when it grows.
class FloatScratch {
 public:
  explicit FloatScratch(CpuHeap& heap) : heap_(&heap) {}
  /// Error: OutOfMemory.
  float* take(int64_t floats);

 private:
  CpuHeap* heap_;
  Buffer memory_;
};

/// What an op needs of its backend.
struct CpuContext {
  ThreadPool& pool;
  const RowKernels& kernels;
  std::vector<FloatScratch> per_thread;  // one a thread of the pool
  FloatScratch shared;                   // partial results of split attention
};

void cpu_embed(CpuContext& cpu, const Tensor& ids, const QuantWeight& table, const void* packed, float scale,
               const Tensor& y);
void cpu_gather_rows(CpuContext& cpu, const Tensor& x, const Tensor& rows, const Tensor& y);
void cpu_rms_norm(CpuContext& cpu, const RmsNormArgs& args);
void cpu_rope(CpuContext& cpu, const RopeArgs& args);
void cpu_store_kv(CpuContext& cpu, const StoreKvArgs& args);
void cpu_attention(CpuContext& cpu, const AttentionArgs& args);
void cpu_add(CpuContext& cpu, const Tensor& a, const Tensor& b, const Tensor& y);
void cpu_add_bias(CpuContext& cpu, const Tensor& x, const Tensor& bias, const Tensor& y);
void cpu_gated_activation(CpuContext& cpu, Activation act, const Tensor& gate, const Tensor& up, const Tensor& y);
void cpu_softcap(CpuContext& cpu, const Tensor& x, float cap, const Tensor& y);
void cpu_cast(CpuContext& cpu, const Tensor& x, const Tensor& y);

/// The last dim of a tensor is a row; this walks all rows. Row r of a view with strides in any outer dim.
struct Rows {
  explicit Rows(const Tensor& tensor);
  int64_t n = 1;  // rows
  int64_t d = 1;  // elements a row, contiguous
  uint8_t* at(int64_t row) const;

 private:
  Tensor tensor_;
  size_t element_;
  bool is_flat_;
};

/// Rows a chunk such that a chunk moves about 16 KiB elements: below that a thread costs more than it helps.
int64_t rows_per_chunk(int64_t elements_a_row);

}  // namespace loft
