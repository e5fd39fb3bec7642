// backend/cpu: activations made ready for a kernel. What enters: rows of x in f32, f16 or bf16. What leaves: f32 rows,
// or 16-bit fixed point a group (A16): q in [-32512, 32512] with x ~ d * q, split into two int8 planes q = 256 hi + lo.
//
// A16 rows stand in slices of kSliceRows (the last slice may hold fewer: r rows). In a slice, for each 32 inputs, 8
// quads of hi for all r rows, then 8 quads of lo: byte ((block * 2 + plane) * 8 + quad) * 4 r + 4 row. d and s: [k /
// group][r].
#pragma once
#include "backend/cpu/qmm_rows.h"

namespace loft {

inline constexpr int kSliceRows = 8;

/// The A16 numbers of one group: a = max |x|, d = a / 32512, q = round_to_even(x * (32512 / a)), s = d * sum q. A group
/// that holds a NaN or an infinity has d = s = NaN and q = 0; below 2^-100 everything is 0 (32512 / a would overflow).
inline constexpr float kA16Max = 32512.0f;
inline constexpr float kA16Tiny = 0x1p-100f;

/// Input (0..31) whose code stands in byte i of a block of 32 codes in this order.
int code_order_source(CodeOrder order, int i);

void prepare_f32(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
void prepare_a16_scalar(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
void prepare_a16_avx512(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);

/// Element i of a row of x as f32.
float load_f32(const void* row, DType dtype, int64_t i);
/// Rounds once to y's type.
void store_y(const Tensor& y, int64_t row, int64_t column, float value);

/// The slice that holds `row`: its first row, its number of rows, and where its codes and scales begin.
struct A16Slice {
  int64_t first = 0;
  int rows = 0;
  int8_t* codes = nullptr;
  float* d = nullptr;
  float* s = nullptr;
};
inline A16Slice a16_slice(const PreparedActivations& x, int64_t slice) {
  const int64_t first = slice * kSliceRows;
  const int64_t rows = x.m - first < kSliceRows ? x.m - first : kSliceRows;
  return {.first = first,
          .rows = int(rows),
          .codes = x.codes + first * x.k * 2,
          .d = x.d + first * (x.k / x.key.group),
          .s = x.s + first * (x.k / x.key.group)};
}
inline int64_t a16_slices(int64_t m) {
  return (m + kSliceRows - 1) / kSliceRows;
}

}  // namespace loft
