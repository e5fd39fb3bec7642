// backend/cpu: one panel of bytes against up to eight rows of x on 64-bit ARM. The including file defines Dot::add(sum,
// w, x) and Dot::add_lane<r>(sum, w, x), which add the products of four bytes a lane (of quad r of x) to a lane's sum.
#pragma once
#include <arm_neon.h>

#include <cstring>

#include "backend/cpu/qmm_codes_neon.h"

namespace loft {
namespace {

#define LOFT_INLINE inline __attribute__((always_inline))

// Rows at a time: 16 sums, 4 weights and one x fill 21 of 32 registers.
constexpr int kNeonRows = 4;

template <int kRows>
LOFT_INLINE void add_quad(int32x4_t (&sum)[kRows][4], const uint8_t* w, const int8_t* x) {
  const uint8x16_t w0 = vld1q_u8(w), w1 = vld1q_u8(w + 16), w2 = vld1q_u8(w + 32), w3 = vld1q_u8(w + 48);
  if constexpr (kRows == 4) {
    const int8x16_t four = vld1q_s8(x);  // a quad of each row
#define LOFT_ROW(r)                                  \
  sum[r][0] = Dot::add_lane<r>(sum[r][0], w0, four); \
  sum[r][1] = Dot::add_lane<r>(sum[r][1], w1, four); \
  sum[r][2] = Dot::add_lane<r>(sum[r][2], w2, four); \
  sum[r][3] = Dot::add_lane<r>(sum[r][3], w3, four);
    LOFT_ROW(0) LOFT_ROW(1) LOFT_ROW(2) LOFT_ROW(3)
#undef LOFT_ROW
  } else {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      int32_t quad;
      std::memcpy(&quad, x + r * 4, 4);
      const int8x16_t one = vreinterpretq_s8_s32(vdupq_n_s32(quad));
      sum[r][0] = Dot::add(sum[r][0], w0, one);
      sum[r][1] = Dot::add(sum[r][1], w1, one);
      sum[r][2] = Dot::add(sum[r][2], w2, one);
      sum[r][3] = Dot::add(sum[r][3], w3, one);
    }
  }
}

/// Rows [row, row + kRows) of a slice of `a_rows`, kPlanes planes of x: high bytes, times 256, then low bytes.
template <int kRows, int kPlanes>
LOFT_INLINE void byte_rows(const PanelTile& a, const Ahead& ahead, int64_t row, int64_t a_rows, float* acc) {
  const int64_t steps = a.group_inputs / 16, step_bytes = 16 * kPlanes * a_rows;
  const uint8_t* w = a.codes;
  const int8_t* x = a.x + row * 4;
  Asker asker(ahead, a.groups);
  for (int64_t g = 0; g < a.groups; ++g) {
    asker.ask();
    int32x4_t sum[kRows][4];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[r][c] = vdupq_n_s32(0);
    }
#pragma GCC unroll 2
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (plane == 1) {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (int c = 0; c < 4; ++c) sum[r][c] = vshlq_n_s32(sum[r][c], 8);
        }
      }
      for (int64_t step = 0; step < steps; ++step) {
        const int8_t* const xs = x + step * step_bytes + plane * 16 * a_rows;
        const uint8_t* const ws = w + step * 256;
#pragma GCC unroll 4
        for (int quad = 0; quad < 4; ++quad) add_quad<kRows>(sum, ws + quad * 64, xs + quad * 4 * a_rows);
      }
    }
    w += steps * 256;
    x += steps * step_bytes;
    const float* const scales = a.scales + g * 2 * kPanelOutputs;
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const float32x4_t scale = vld1q_f32(scales + c * 4), bias = vld1q_f32(scales + kPanelOutputs + c * 4);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        float* const at = acc + (row + r) * kPanelOutputs + c * 4;
        const float32x4_t d = vdupq_n_f32(a.d[g * a_rows + row + r]), s = vdupq_n_f32(a.s[g * a_rows + row + r]);
        const float32x4_t product = vmulq_f32(vcvtq_f32_s32(sum[r][c]), scale);
        vst1q_f32(at, vfmaq_f32(vfmaq_f32(vld1q_f32(at), product, d), bias, s));
      }
    }
  }
}

template <int kRows, int kPlanes>
void byte_tile(const PanelTile& tile, float* acc) {
  if constexpr (kRows > kNeonRows) {
    const uint8_t* const middle = tile.ahead.begin + (tile.ahead.end - tile.ahead.begin) * kNeonRows / kRows;
    byte_rows<kNeonRows, kPlanes>(tile, {tile.ahead.begin, middle}, 0, kRows, acc);
    byte_rows<kRows - kNeonRows, kPlanes>(tile, {middle, tile.ahead.end}, kNeonRows, kRows, acc);
  } else {
    byte_rows<kRows, kPlanes>(tile, tile.ahead, 0, kRows, acc);
  }
}

template <int kPlanes>
TileFunction byte_tile_of(int64_t rows) {
  static constexpr TileFunction kAll[kSliceRows] = {byte_tile<1, kPlanes>, byte_tile<2, kPlanes>, byte_tile<3, kPlanes>,
                                                    byte_tile<4, kPlanes>, byte_tile<5, kPlanes>, byte_tile<6, kPlanes>,
                                                    byte_tile<7, kPlanes>, byte_tile<8, kPlanes>};
  return kAll[rows - 1];
}

TileFunction byte_tile_of(int64_t rows, ActivationForm form) {
  return form == ActivationForm::A8 ? byte_tile_of<1>(rows) : byte_tile_of<2>(rows);
}

}  // namespace
}  // namespace loft
