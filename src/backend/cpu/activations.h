// backend/cpu: activations made ready for a kernel. What enters: rows of x in f32, f16 or bf16. What leaves: f32 rows,
// or fixed point a group, x ~ d * q. A16: q in [-32512, 32512], split into two int8 planes, q = 256 hi + lo. A8: q in
// [-127, 127], one plane.
//
// Fixed-point rows stand in slices of kSliceRows (the last slice may hold fewer: r rows). In a slice, for each 16
// inputs, the planes follow each other, four quads of all r rows each: byte (((input / 16) * planes + plane) * 4 +
// quad) * 4 r + 4 row. Form A16Words keeps q itself, pairs of 16-bit words: byte (input / 2) * 4 r + 4 row. d and s:
// [k / group][r].
#pragma once
#include "backend/cpu/qmm_rows.h"

namespace loft {

inline constexpr int kSliceRows = 8;

/// The numbers of one group: a = max |x|, d = a / top, q = round_to_even(x * (top / a)), s = d * sum q. A group that
/// holds a NaN or an infinity has d = s = NaN and q = 0; below 2^-100 everything is 0 (top / a would overflow).
inline constexpr float kA16Top = 32512.0f, kA8Top = 127.0f;
inline constexpr float kFixedTiny = 0x1p-100f;

struct GroupScale {
  float d = 0, inverse = 0;  // inverse: top / a
  bool is_zero = true;       // every q is 0, whatever x * inverse would be
};
/// `bits` are the largest bits of |x| in the group: for numbers that is a, and from 0x7f800000 on something is not
/// finite. Always inlined, as it is used in files of several instruction sets.
__attribute__((always_inline)) inline GroupScale group_scale(uint32_t bits, float top) {
  float a;
  __builtin_memcpy(&a, &bits, 4);
  if (bits >= 0x7f800000u) return {.d = __builtin_nanf("")};
  if (a < kFixedTiny) return {};
  return {.d = a / top, .inverse = top / a, .is_zero = false};
}

/// Bytes of a code of a fixed-point form (the planes, for those that have planes), and the largest q.
inline int planes_of(ActivationForm form) {
  return form == ActivationForm::A8 ? 1 : 2;
}
inline float top_of(ActivationForm form) {
  return form == ActivationForm::A8 ? kA8Top : kA16Top;
}

/// Which of 16 inputs stands at place i, where tuples of `size` hold inputs `stride` apart: with size 4 and stride 2
/// the order is 0 2 4 6, 1 3 5 7, 8 10 ...
constexpr int input_at(int size, int stride, int i) {
  const int tuple = i / size;
  return tuple / stride * size * stride + tuple % stride + i % size * stride;
}

void prepare_f32(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
void prepare_codes_scalar(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
void prepare_words_avx2(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);
void prepare_codes_avx512(const Tensor& x, int64_t row_begin, int64_t row_end, const PreparedActivations& out);

/// Element i of a row of x as f32.
float load_f32(const void* row, DType dtype, int64_t i);
/// Rounds once to y's type.
void store_y(const Tensor& y, int64_t row, int64_t column, float value);

/// A slice: its first row, its number of rows and planes, and where its codes and scales begin.
struct ActivationSlice {
  int64_t first = 0;
  int rows = 0, planes = 0;
  int8_t* codes = nullptr;
  float* d = nullptr;
  float* s = nullptr;
};
inline ActivationSlice activation_slice(const PreparedActivations& x, int64_t slice) {
  const int64_t first = slice * kSliceRows;
  const int64_t rows = x.m - first < kSliceRows ? x.m - first : kSliceRows;
  const int planes = planes_of(x.key.form);
  return {.first = first,
          .rows = int(rows),
          .planes = planes,
          .codes = x.codes + first * x.k * planes,
          .d = x.d + first * x.groups,
          .s = x.s + first * x.groups};
}
inline int64_t activation_slices(int64_t m) {
  return (m + kSliceRows - 1) / kSliceRows;
}

}  // namespace loft
