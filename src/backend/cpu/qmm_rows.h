// backend/cpu: what a CPU row of the table consists of: how it wants the activations, and a single-threaded function
// over a range of outputs. Read this first, then cpu_qmm.cc (the loop) and one qmm_*.cc (the arithmetic).
#pragma once
#include <atomic>
#include <cstdint>

#include "backend/cpu/row_kernels.h"
#include "backend/qmm_kernel.h"
#include "core/tensor.h"
#include "quant/format.h"

namespace loft {

/// F32: x as f32 [m, k]. A16: 16-bit fixed point a group, as two int8 planes in slices of rows (activations.h).
/// A16Vector: the same numbers of one row, in blocks of 16 pieces (qmm_vector_avx512.cc). A8: 8-bit
/// fixed point. A16Words: the numbers of A16 as 16-bit words.
enum class ActivationForm : uint8_t { F32, A16, A16Vector, A8, A16Words };

/// What one preparation of x serves. Parts of a call with equal keys share it.
struct ActivationKey {
  ActivationForm form = ActivationForm::F32;
  int stride = 1;  // of the inputs in a quad, so that unpacked weight registers need no shuffle: see input_at
  int group = 0;   // inputs that share a scale; 0 for F32
  bool operator==(const ActivationKey&) const = default;
};

/// x [m, k] made ready; memory of the call's workspace (or x itself).
struct PreparedActivations {
  ActivationKey key;
  int64_t m = 0, k = 0;
  int64_t groups = 0;       // k / key.group; 0 for F32
  float* f32 = nullptr;     // [m, k], form F32
  int8_t* codes = nullptr;  // fixed-point forms: see activations.h
  float* d = nullptr;       // [k / group, m] in slices, step of the codes
  float* s = nullptr;       // as d: d * (sum of the group's codes)
};

/// One piece of work for one thread: columns [begin, end) of y.
struct CpuQmmRange {
  const QuantWeight* weight = nullptr;  // [n, k]; words: in the row's layout
  const PreparedActivations* x = nullptr;
  const Tensor* y = nullptr;  // [m, n], rows may be strided
  int64_t begin = 0, end = 0;
  void* scratch = nullptr;      // scratch_bytes of this thread, 64-byte aligned
  const void* dense = nullptr;  // the whole weight decoded, [n, k] in the type of x; null: decode as you go
  int64_t panel_rows = 0;       // outputs of a panel; 0 for rows without panels
  std::atomic<uint64_t>* gemm_fallbacks = nullptr;
  const RowKernels* kernels = nullptr;  // what rounds decoded weights
};

struct CpuQmmEntry : QmmEntry {
  ActivationKey (*key)(const QuantFormat& format);
  void (*prepare)(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
  size_t (*scratch_bytes)(const QmmSpec& spec, int64_t m, int64_t panel_bytes);  // a thread
  void (*run)(const CpuQmmRange& range);
  int n_step;                                                       // ranges begin at multiples of it
  int64_t (*panel_rows)(int64_t k, int64_t panel_bytes) = nullptr;  // where set: begin at multiples of this
};

/// Blocks of A16Vector activations: 16 pieces of 16 weight bytes each, repeated until a row's pieces fit a whole number
/// of times.
int64_t vector_blocks(int64_t k, int bits);

/// Bytes of the codes of prepared A16 activations, and of everything in a workspace (64-byte multiples).
size_t activation_code_bytes(const ActivationKey& key, int64_t m, int64_t k);
size_t activation_bytes(const ActivationKey& key, int64_t m, int64_t k, DType x_dtype);

/// workspace_bytes of any CPU row: activations, then the scratch of each thread.
size_t cpu_workspace_bytes(const CpuQmmEntry& entry, const QmmSpec& spec, int64_t m, const DeviceInfo& device);

inline size_t align64(size_t bytes) {
  return (bytes + 63) & ~size_t{63};
}

/// Rows of the entries below exist in every build; the functions behind them only where the ISA does.
extern const CpuQmmEntry kScalarEntry;
extern const CpuQmmEntry kCodesA16Avx512Entry;
extern const CpuQmmEntry kCodesA8Avx512Entry;
extern const CpuQmmEntry kPanel16A16Avx512Entry;
extern const CpuQmmEntry kPanel16A8Avx512Entry;
extern const CpuQmmEntry kPanel16DirectAvx512Entry;
extern const CpuQmmEntry kPanel16Avx2Entry;
extern const CpuQmmEntry kPanel16AvxVnniEntry;
extern const CpuQmmEntry kPanel16A16NeonDotprodEntry;
extern const CpuQmmEntry kPanel16A16NeonI8mmEntry;
extern const CpuQmmEntry kPanel16A8NeonI8mmEntry;
extern const CpuQmmEntry kVectorAvx512Entry;
extern const CpuQmmEntry kF32Avx512Entry;
extern const CpuQmmEntry kF32Avx2Entry;
extern const CpuQmmEntry kCodesAvx2Entry;
extern const CpuQmmEntry kCodesAvxVnniEntry;
extern const CpuQmmEntry kCodesA16NeonDotprodEntry;
extern const CpuQmmEntry kCodesA16NeonI8mmEntry;
extern const CpuQmmEntry kCodesA8NeonI8mmEntry;
extern const CpuQmmEntry kPanelsEntry;

/// Row `row` of w as f32 [k], rounded to `dtype` on the way: what a dense copy of that type holds.
void decode_rounded_row(const RowKernels& kernels, const QuantWeight& w, int64_t row, DType dtype, float* out);

}  // namespace loft
