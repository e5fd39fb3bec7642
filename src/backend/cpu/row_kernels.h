// backend/cpu: the single-threaded kernels of every op but the quantized product, as one table an instruction set.
// Pointers and counts enter; parallel loops and strides stay in norm.cc, rope.cc, attention.cc, elementwise.cc,
// gather.cc.
#pragma once
#include <cfloat>
#include <cstdint>

#include "core/dtype.h"

namespace loft {

/// Elements in memory, so that a pointer says its type.
struct Half {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

/// Index of a float type in the tables below.
inline constexpr int kFloatTypes = 3;
constexpr int float_index(DType dtype) {
  return dtype == DType::F32 ? 0 : dtype == DType::F16 ? 1 : 2;
}

/// Index of a type of keys and values: I8 behind the floats.
inline constexpr int kKvTypes = kFloatTypes + 1;
constexpr int kv_index(DType dtype) {
  return dtype == DType::I8 ? kFloatTypes : float_index(dtype);
}

/// Attention sums over keys in blocks of 64 positions, and blocks in chunks of 512, both at fixed multiples, so that
/// the result of a row does not depend on the rows beside it. 64 scores are four vectors; 512 keys are a few
/// microseconds of work, enough for one task of a decode step.
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kKeyChunk = 512;

/// Query rows of one key/value head: row i has position first_position + i / group and sees keys from
/// position - window + 1 (window 0: from 0) to its own. d is padded to dp, a multiple of 16, in all scratch.
struct AttendArgs {
  const float* q = nullptr;  // [n_q, dp], scaled
  int64_t n_q = 0;
  int64_t group = 1;  // query heads a key/value head
  int64_t first_position = 0;
  int64_t window = 0;
  float softcap = 0.0f;
  const void* k = nullptr;          // [capacity, d]; position p in row p % capacity
  const void* v = nullptr;          // [capacity, d]
  const float* k_scales = nullptr;  // [capacity] where codes have scales, else null
  const float* v_scales = nullptr;
  int64_t capacity = 0;
  int64_t d = 0;
  int64_t begin = 0, end = 0;  // positions of one chunk, [begin, end) inside [c * kKeyChunk, (c + 1) * kKeyChunk)
  float* scratch = nullptr;    // attend_scratch_floats
  // Out: softmax state over the chunk. Rows that see nothing of it have peak kNoPeak, sum 0.
  float* peak = nullptr;  // [padded_rows(n_q)]
  float* sum = nullptr;   // [padded_rows(n_q)]
  float* acc = nullptr;   // [n_q, dp]
};
/// Peak of a row that saw no key: finite, so that no difference of peaks is a NaN of its own making.
inline constexpr float kNoPeak = -FLT_MAX;
constexpr int64_t padded_rows(int64_t n_q) {
  return (n_q + 15) / 16 * 16;
}
/// Floats that attend() needs as scratch for n_q rows: scores, packed keys, packed values, [lo, hi) of each row.
constexpr int64_t attend_scratch_floats(int64_t n_q, int64_t dp) {
  return padded_rows(n_q) * (kKeyBlock + 2) + 2 * kKeyBlock * dp;
}

struct RowKernels {
  const char* name;
  void (*rms_norm[kFloatTypes][kFloatTypes])(const void* x, const void* weight, void* y, int64_t d, float eps,
                                             float weight_offset);  // x type, weight type
  /// One row of x: n_heads heads, head_stride elements apart.
  void (*rope[kFloatTypes])(void* x, int64_t n_heads, int64_t head_stride, const float* inv_freq, int64_t n_half,
                            int32_t position, float scale);
  void (*add[kFloatTypes][kFloatTypes])(const void* a, const void* b, void* y, int64_t n);  // a and y type, b type
  void (*silu_mul[kFloatTypes])(const void* gate, const void* up, void* y, int64_t n);
  void (*gelu_tanh_mul[kFloatTypes])(const void* gate, const void* up, void* y, int64_t n);
  void (*softcap[kFloatTypes])(const void* x, float cap, void* y, int64_t n);
  /// y = scale * x, converted.
  void (*scale_cast[kFloatTypes][kFloatTypes])(const void* x, float scale, void* y, int64_t n);  // x type, y type
  void (*attend[kKvTypes])(const AttendArgs& args);                                              // kv_index
  /// total = total merged with part, row by row.
  void (*merge)(const AttendArgs& total, const AttendArgs& part, int64_t dp);
  /// y [d] = acc / sum.
  void (*finish[kFloatTypes])(const float* acc, float sum, void* y, int64_t d);
};

/// The best table that the CpuIsa bits allow.
const RowKernels& row_kernels(uint32_t isa);

extern const RowKernels kRowKernelsScalar;
#if defined(__x86_64__)
extern const RowKernels kRowKernelsAvx2;
extern const RowKernels kRowKernelsAvx512;
#elif defined(__aarch64__)
extern const RowKernels kRowKernelsNeon;
#endif

}  // namespace loft
