// backend/cpu: how the planes of layout Panel16 become quads of bytes again, and panels of a tile's scratch, whatever
// the vectors are. The including file defines
//   struct Bytes, with its Vector of kSize bytes: load(at), shift_right<n>(v) (n < 0: left; bits of neighbouring bytes
//     may come in), keep(v, mask) (of each byte), either(a, b), fp4(v) (kFp4Bytes of each byte), and
//     store<S>(panel, quad, part, v): where bytes [part * kSize, ..) of a quad go, inputs of quads S apart
//     (quad_stride)
//   void load_scales(w, at, scale, bias): those of a group, 16 f32 each; at: as panel16.h has them.
#pragma once
#include "backend/cpu/qmm_codes.h"
#include "backend/cpu/qmm_panel16.h"

#ifndef LOFT_INLINE
#define LOFT_INLINE inline __attribute__((always_inline))
#endif

namespace loft {
namespace {

/// Quads that are unpacked together: a line of the narrowest plane.
constexpr int unit_quads(int bits) {
  return high_bits(bits) == 1 ? 8 : 4;
}
constexpr int64_t unit_low_bytes(int bits) {
  return unit_quads(bits) * low_bits(bits) / 8 * kQuadBytes;
}

/// Bytes::kSize codes, a byte each, of quad kQuad of a unit whose planes are at low and high.
template <int kBits, bool kFp4, int kQuad>
LOFT_INLINE Bytes::Vector unpack_quad(const uint8_t* low, const uint8_t* high) {
  constexpr int kLow = low_bits(kBits), kHigh = high_bits(kBits);
  Bytes::Vector v = Bytes::load(low + kQuad * kLow / 8 * kQuadBytes);
  if constexpr (kBits == 8) return v;
  v = Bytes::keep(Bytes::shift_right<kQuad * kLow % 8>(v), (1 << kLow) - 1);
  if constexpr (kHigh > 0) {
    const Bytes::Vector top = Bytes::shift_right<kQuad * kHigh % 8 - kLow>(Bytes::load(high));
    v = Bytes::either(v, Bytes::keep(top, ((1 << kHigh) - 1) << kLow));
  }
  if constexpr (kFp4) v = Bytes::fp4(v);
  return v;
}

/// Calls use(quad, codes) for the quads of a unit, in order.
template <int kBits, bool kFp4, typename Use>
LOFT_INLINE void for_quads(const uint8_t* low, const uint8_t* high, Use use) {
  use(0, unpack_quad<kBits, kFp4, 0>(low, high));
  use(1, unpack_quad<kBits, kFp4, 1>(low, high));
  use(2, unpack_quad<kBits, kFp4, 2>(low, high));
  use(3, unpack_quad<kBits, kFp4, 3>(low, high));
  if constexpr (unit_quads(kBits) == 8) {
    use(4, unpack_quad<kBits, kFp4, 4>(low, high));
    use(5, unpack_quad<kBits, kFp4, 5>(low, high));
    use(6, unpack_quad<kBits, kFp4, 6>(low, high));
    use(7, unpack_quad<kBits, kFp4, 7>(low, high));
  }
}

/// Here w.words is the packed weight.
const uint8_t* panel_at(const QuantWeight& w, const Panel16& p, int64_t n0) {
  return static_cast<const uint8_t*>(w.words) + n0 / kPanelOutputs * p.panel_bytes;
}

template <int kBits, bool kFp4>
void panel_codes(const QuantWeight& w, int64_t n0, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel) {
  constexpr int kUnit = unit_quads(kBits);
  const Panel16 p = panel16_of(w);
  const int64_t group = w.format.group, units = group / (4 * kUnit);
  const uint8_t* const from = panel_at(w, p, n0);
  Asker asker(ahead, inputs / group);
  for (int64_t g = first / group; g < (first + inputs) / group; ++g) {
    const uint8_t* low = from + p.codes_at(g);
    const uint8_t* high = low + units * unit_low_bytes(kBits);
    asker.ask();
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t part = 0; part < kQuadBytes / Bytes::kSize; ++part) {
        const int64_t at = part * Bytes::kSize;
        for_quads<kBits, kFp4>(
            low + at, high + at, [&](int quad, Bytes::Vector codes) __attribute__((always_inline)) {
              Bytes::store<quad_stride(kBits)>(panel, quad, part, codes);
            });
      }
      low += unit_low_bytes(kBits);
      high += kQuadBytes;
      panel += kUnit * kQuadBytes * Bytes::kPanelCodeBytes;
    }
  }
}

void panel_scales(const QuantWeight& w, int64_t n0, float* scales) {
  const Panel16 p = panel16_of(w);
  const uint8_t* const from = panel_at(w, p, n0);
  for (int64_t g = 0; g < p.groups; ++g) {
    float* const to = scales + g * 2 * kPanelOutputs;
    load_scales(w, from + p.scales_at(g), to, to + kPanelOutputs);
  }
}

int64_t output_bytes(const QuantWeight& w) {
  return panel16_of(w).panel_bytes / kPanelOutputs;
}

constexpr PanelSources kPanel16Sources = panel_sources([]<int kBits, bool kFp4>() {
  return PanelSource{unit_quads(kBits) * 4, panel_codes<kBits, kFp4>, panel_scales, output_bytes};
});

}  // namespace
}  // namespace loft
