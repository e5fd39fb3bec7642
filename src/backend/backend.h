// backend: the one interface between what a model says (ops/) and a machine. All tensors are device memory of this
// backend; shapes were checked by ops/, never again here. x dtypes: F32, F16, BF16; arithmetic in f32, rounded once.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/device_info.h"
#include "backend/memory_pressure.h"
#include "backend/qmm_kernel.h"
#include "core/buffer.h"
#include "core/tensor.h"
#include "quant/format.h"

namespace loft {

/// Of one backend. Weights that stay in their mapped file are no part of active and peak.
struct MemoryStats {
  size_t active_bytes = 0;  // handed out and not freed
  size_t peak_bytes = 0;    // high water of active since reset_peak
  size_t cache_bytes = 0;   // freed, kept for reuse
  size_t file_bytes = 0;    // placed weights that a mapped file backs, resident or not
  size_t limit_bytes = 0;   // of active, cache and file together; 0: none
};

/// Since the backend was opened.
struct BackendCounters {
  uint64_t allocations = 0;  // buffers handed out
  uint64_t allocated_bytes = 0;
  uint64_t copies = 0;  // between the memory of host and device; none where they are one
  uint64_t copied_bytes = 0;
  uint64_t launches = 0;  // kernels given to the device; on a processor: loops given to its worker threads
};

/// Of the dequantize + GEMM rows, since the backend was opened.
struct PanelStats {
  uint64_t high_water_bytes = 0;  // most panel workspace of one call
  uint64_t gemm_fallbacks = 0;    // GEMMs that the library refused and loft computed itself
};

/// Keys and values of one layer of one sequence. Position p lies in row p % capacity. I8: a row is its codes times the
/// row's scale, max|x| / 127.
struct KvView {
  DType dtype = DType::F16;
  void* k = nullptr;          // [n_kv_heads, capacity, head_dim]
  void* v = nullptr;          // [n_kv_heads, capacity, head_dim]
  float* k_scales = nullptr;  // [n_kv_heads, capacity], I8 only
  float* v_scales = nullptr;  // [n_kv_heads, capacity], I8 only
  int64_t capacity = 0;
};

/// Rows [first_row, first_row + n_rows) of a batch belong to one sequence; row first_row + i has position n_past + i.
struct AttentionSegment {
  KvView kv;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t n_past = 0;
};

struct RmsNormArgs {
  Tensor x;       // [..., d], rows may be strided
  Tensor weight;  // [d], F32, F16 or BF16
  Tensor y;       // as x; may be x
  float eps = 1e-6f;
  float weight_offset = 0.0f;  // 1 for Gemma: y = x / rms(x) * (offset + weight)
};

struct RopeArgs {
  Tensor x;            // [m, n_heads, head_dim], rotated in place, may be strided
  Tensor positions;    // [m] I32
  Tensor inv_freq;     // [n_rot / 2] F32, radians a token
  float scale = 1.0f;  // yarn's mscale: x is multiplied by it
};

struct StoreKvArgs {
  Tensor k, v;  // [m, n_kv_heads, head_dim], may be strided
  std::span<const AttentionSegment> segments;
};

struct AttentionArgs {
  Tensor q;  // [m, n_heads, head_dim], may be strided
  Tensor y;  // [m, n_heads, head_dim], contiguous
  int64_t n_kv_heads = 0;
  float scale = 1.0f;
  int64_t window = 0;                          // 0: full causal; else a row sees positions p - window + 1 .. p
  float softcap = 0.0f;                        // 0: none; else scores become softcap * tanh(score / softcap)
  std::span<const AttentionSegment> segments;  // keys and values of all rows are stored already
};

enum class Activation : uint8_t { Silu, GeluTanh };

/// One machine. Calls are ordered as issued; synchronize() waits for all of them. Not thread-safe: one engine, one
/// backend.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& device() const = 0;
  virtual const QmmPolicy& policy() const = 0;

  /// Aligned to 64 bytes, not initialised. Errors: OutOfMemory with need and have. The buffer must not outlive the
  /// backend.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void upload(void* device_data, const void* host_data, size_t bytes) = 0;
  virtual void download(void* host_data, const void* device_data, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;  ///< within device memory, no overlap
  virtual void synchronize() = 0;
  /// Weights of the host as device memory, read-only. A backend that reads host memory leaves them where the file is
  /// mapped and counts them as file_bytes; others upload them.
  virtual Buffer place(const void* host_data, size_t bytes) {
    Buffer buffer = allocate(bytes);
    upload(buffer.data(), host_data, bytes);
    return buffer;
  }
  /// Placed weights that are not needed any more, by their address: what holds them for nobody else goes back to the
  /// system. They can still be read, slowly.
  virtual void drop_placed(const void* data) { (void)data; }
  virtual MemoryStats memory() const = 0;
  virtual void reset_peak() = 0;
  virtual BackendCounters counters() const { return {}; }
  /// Gives freed buffers that are kept for reuse back to the system.
  virtual void free_cached() {}
  /// Hooks that free what only speed needs; allocate() calls them before it fails.
  virtual MemoryPressure& pressure() { return pressure_; }

  /// y[i] = scale * table[ids[i]]. ids [m] I32 in [0, table.n); y [m, table.k]. packed: the table in another layout
  /// (pack), which is then read in its place; or null.
  virtual void embed(const Tensor& ids, const QuantWeight& table, const void* packed, float scale, const Tensor& y) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void store_kv(const StoreKvArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& y) = 0;          ///< y = a + b; y may be a or b
  virtual void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) = 0;  ///< x, y [m, n], bias [n]
  virtual void gated_activation(Activation act, const Tensor& gate, const Tensor& up,
                                const Tensor& y) = 0;                     ///< y = act(gate) * up
  virtual void softcap(const Tensor& x, float cap, const Tensor& y) = 0;  ///< y = cap * tanh(x / cap)
  virtual void gather_rows(const Tensor& x, const Tensor& rows,
                           const Tensor& y) = 0;            ///< y[i] = x[rows[i]]; rows [r] I32
  virtual void cast(const Tensor& x, const Tensor& y) = 0;  ///< element types differ

  /// The table of quantized-product kernels, best first, reference last.
  virtual std::span<const QmmKernel> qmm_table() const = 0;
  /// Bytes of a weight in a layout that rows of the table read; 0: it cannot be packed so.
  virtual size_t packed_bytes(const QuantWeight& weight, Layout layout) const {
    return (void)weight, (void)layout, size_t{0};
  }
  /// The same numbers in that layout, into packed_bytes of device memory. What QmmPart::packed takes.
  virtual void pack(const QuantWeight& weight, Layout layout, void* out) { (void)weight, (void)layout, (void)out; }
  /// Products that share one x: args.parts[i].y = x W_i^T, each by its own row. Nothing is allocated.
  virtual void run_qmm(const QmmArgs& args) = 0;
  /// out [n, k] of `dtype`: the weight decoded in f32 and rounded once. What QmmPart::dense takes.
  virtual void dequantize(const QuantWeight& weight, DType dtype, void* out) = 0;
  virtual PanelStats panel_stats() const { return {}; }

 private:
  MemoryPressure pressure_;
};

}  // namespace loft
