// backend/cpu: up to three panels of bytes against up to eight rows of x, by vpdpbusd. The integer sum of a group is
// exact, so its order is free: where the sums of both planes fit the registers they run side by side, else the first
// plane's sums are shifted and the second adds to them.
#include <immintrin.h>

#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_codes_avx512.h"

namespace loft {
namespace {

constexpr int kStepQuads = 4;  // four inputs a quad; a step is what x keeps of one plane together

/// Sums of a tile: `sets` of kRows x kPanels registers, for the planes and for chains of one plane.
template <int kRows, int kPanels, int kPlanes>
struct Shape {
  static constexpr int kSums = kRows * kPanels;
  static constexpr bool kSideBySide = kPlanes == 2 && kSums <= 12;  // 24 sums at most
  static constexpr int kSetPlanes = kSideBySide ? 2 : 1;
  // vpdpbusd takes 5 cycles and two begin in each: ten sums should be under way.
  static constexpr int kChains = kSums * kSetPlanes <= 6 ? 2 : 1;
  static constexpr int kRegisters = kSums * kSetPlanes * kChains;
};

// g++ 12 puts the sums of a large tile on the stack when they pass through the intrinsics (149 instructions for 96 dots
// so, 199 with them), hence the instructions by name.
LOFT_INLINE void add_dot(__m512i& sum, __m512i codes, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(x));
}
LOFT_INLINE void shift_left_8(__m512i& sum) {
  asm("vpslld $8, %0, %0" : "+v"(sum));
}
// And here it would keep all of acc in registers from group to group, that is on the stack.
LOFT_INLINE void forget_memory() {
  asm volatile("" ::: "memory");
}

/// Four quads of kPanels panels against the planes of x from `x`, which stand `plane_bytes` apart.
template <class S, int kRows, int kPanels>
LOFT_INLINE void add_step(const uint8_t* w, int64_t pitch, const int8_t* x, __m512i* sum) {
#pragma GCC unroll 4
  for (int quad = 0; quad < kStepQuads; ++quad) {
    __m512i v[kPanels];
#pragma GCC unroll 3
    for (int p = 0; p < kPanels; ++p) v[p] = _mm512_load_si512(w + p * pitch + quad * 64);
    const int set = quad % S::kChains * S::kSetPlanes;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int plane = 0; plane < S::kSetPlanes; ++plane) {
        int four;
        __builtin_memcpy(&four, x + (plane * kStepQuads + quad) * 4 * kRows + 4 * r, 4);
        const __m512i xv = _mm512_set1_epi32(four);
#pragma GCC unroll 3
        for (int p = 0; p < kPanels; ++p) {
          __m512i& to = sum[(set + plane) * S::kSums + r * kPanels + p];
          add_dot(to, v[p], xv);
        }
      }
    }
  }
}

template <int kRows, int kPanels, int kPlanes>
void tile(const PanelTile& a, float* acc) {
  using S = Shape<kRows, kPanels, kPlanes>;
  constexpr int64_t kStepBytes = kStepQuads * 64, kXBytes = int64_t{kPlanes} * kStepQuads * 4 * kRows;
  const int64_t steps = a.group_inputs / (kStepQuads * 4);
  const uint8_t* w = a.codes;
  const int8_t* x = a.x;
  const float* scales = a.scales;
  constexpr int kPasses = kPlanes == 2 && !S::kSideBySide ? 2 : 1;
  Asker asker(a.ahead, a.groups * steps * kPasses);
  for (int64_t g = 0; g < a.groups; ++g) {
    __m512i sum[S::kRegisters];
#pragma GCC unroll 24
    for (int i = 0; i < S::kRegisters; ++i) sum[i] = _mm512_setzero_si512();
    for (int64_t i = 0; i < steps; ++i) {
      asker.ask();
      add_step<S, kRows, kPanels>(w + i * kStepBytes, a.codes_pitch, x + i * kXBytes, sum);
    }
    if constexpr (kPasses == 2) {
#pragma GCC unroll 24
      for (int i = 0; i < S::kSums; ++i) shift_left_8(sum[i]);
      for (int64_t i = 0; i < steps; ++i) {
        asker.ask();
        add_step<S, kRows, kPanels>(w + i * kStepBytes, a.codes_pitch, x + i * kXBytes + kXBytes / 2, sum);
      }
    }
    w += steps * kStepBytes;
    x += steps * kXBytes;
    __m512 scale[kPanels], bias[kPanels];
#pragma GCC unroll 3
    for (int p = 0; p < kPanels; ++p) {
      scale[p] = _mm512_load_ps(scales + p * a.scales_pitch);
      bias[p] = _mm512_load_ps(scales + p * a.scales_pitch + kLanes);
    }
    scales += 2 * kLanes;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 d = _mm512_set1_ps(a.d[g * kRows + r]), s = _mm512_set1_ps(a.s[g * kRows + r]);
#pragma GCC unroll 3
      for (int p = 0; p < kPanels; ++p) {
        const int i = r * kPanels + p;
        __m512i all = sum[i];
        if constexpr (S::kChains == 2) all = _mm512_add_epi32(all, sum[S::kSetPlanes * S::kSums + i]);
        if constexpr (S::kSideBySide) {
          __m512i low = sum[S::kSums + i];
          if constexpr (S::kChains == 2) low = _mm512_add_epi32(low, sum[3 * S::kSums + i]);
          all = _mm512_add_epi32(_mm512_slli_epi32(all, 8), low);
        }
        float* const at = acc + i * kLanes;
        const __m512 f = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(all), scale[p]), d, _mm512_load_ps(at));
        _mm512_store_ps(at, _mm512_fmadd_ps(bias[p], s, f));
      }
      forget_memory();
    }
  }
}

template <int kPanels, int kPlanes>
constexpr TileFunction kTiles[kSliceRows] = {
    tile<1, kPanels, kPlanes>, tile<2, kPanels, kPlanes>, tile<3, kPanels, kPlanes>, tile<4, kPanels, kPlanes>,
    tile<5, kPanels, kPlanes>, tile<6, kPanels, kPlanes>, tile<7, kPanels, kPlanes>, tile<8, kPanels, kPlanes>};

}  // namespace

TileFunction tile_avx512(int64_t rows, int64_t panels, ActivationForm form) {
  static constexpr const TileFunction* kAll[kMaxTilePanels][2] = {
      {kTiles<1, 1>, kTiles<1, 2>}, {kTiles<2, 1>, kTiles<2, 2>}, {kTiles<3, 1>, kTiles<3, 2>}};
  return kAll[panels - 1][planes_of(form) - 1][rows - 1];
}

}  // namespace loft
