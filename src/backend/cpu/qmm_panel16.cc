// backend/cpu: packing into Panel16 and back, on any processor.
#include "backend/cpu/qmm_panel16.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_codes.h"
#include "core/error.h"
#include "quant/affine.h"

namespace loft {
namespace {

constexpr int kMostGroup = 128;

/// Bytes of a scale of one output.
int64_t scale_width(const QuantWeight& w) {
  return int64_t(dtype_bytes(w.scale_dtype));
}

/// Where place (0..3) of quad q of a group comes from.
int64_t input_of(int bits, int64_t quad, int place) {
  return quad / 4 * 16 + input_at(4, quad_stride(bits), int(quad % 4) * 4 + place);
}

/// Codes [group] of output `lane` into the planes at `out` (which begin as zeros), or from them.
template <typename Byte>
struct Planes {
  int bits, group;
  Byte* at;

  /// Byte, and its lowest bit, of the plane of `width` bits at `plane` that holds a place of a quad.
  struct Spot {
    Byte* byte;
    int shift;
  };
  Spot spot(Byte* plane, int width, int64_t quad, int64_t lane, int place) const {
    const int a_byte = 8 / width;
    return {plane + quad / a_byte * kQuadBytes + lane * 4 + place, int(quad % a_byte) * width};
  }
  Byte* high() const { return at + int64_t{group} * low_bits(bits) * 2; }

  void put(int64_t lane, const uint8_t* codes) const {
    const int low = low_bits(bits);
    for (int64_t quad = 0; quad < group / 4; ++quad) {
      for (int place = 0; place < 4; ++place) {
        const int code = codes[input_of(bits, quad, place)];
        const Spot l = spot(at, low, quad, lane, place);
        *l.byte = uint8_t(*l.byte | (code & ((1 << low) - 1)) << l.shift);
        if (low == bits) continue;
        const Spot h = spot(high(), bits - low, quad, lane, place);
        *h.byte = uint8_t(*h.byte | code >> low << h.shift);
      }
    }
  }
  void get(int64_t lane, uint8_t* codes) const {
    const int low = low_bits(bits);
    for (int64_t quad = 0; quad < group / 4; ++quad) {
      for (int place = 0; place < 4; ++place) {
        const Spot l = spot(at, low, quad, lane, place);
        int code = *l.byte >> l.shift & ((1 << low) - 1);
        if (low != bits) {
          const Spot h = spot(high(), bits - low, quad, lane, place);
          code |= (*h.byte >> h.shift & ((1 << (bits - low)) - 1)) << low;
        }
        codes[input_of(bits, quad, place)] = uint8_t(code);
      }
    }
  }
};

/// One group of one output. Widths without a second plane move as whole dwords.
void pack_codes_of(const QuantWeight& w, const uint8_t* row, int64_t g, int64_t lane, uint8_t* out) {
  const int bits = w.format.bits, group = w.format.group;
  if (high_bits(bits) == 0) {
    const uint8_t* const from = row + g * group * bits / 8;
    for (int64_t i = 0; i < group * bits / 32; ++i) std::memcpy(out + i * kQuadBytes + lane * 4, from + i * 4, 4);
    return;
  }
  uint8_t codes[kMostGroup];
  unpack_codes(row, bits, g * group, group, codes);
  Planes<uint8_t>{bits, group, out}.put(lane, codes);
}

/// One scale; sizes that the compiler knows are moves, others calls.
void copy_scale(uint8_t* to, const uint8_t* from, int64_t width) {
  if (width == 2) {
    std::memcpy(to, from, 2);
  } else {
    std::memcpy(to, from, size_t(width));
  }
}

void pack_panel(const QuantWeight& w, const Panel16& p, int64_t panel, uint8_t* out) {
  std::memset(out, 0, size_t(p.panel_bytes));
  const int64_t width = scale_width(w), n0 = panel * kPanelOutputs;
  const int64_t lanes = std::min<int64_t>(kPanelOutputs, w.n - n0);
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t scale = ((n0 + lane) * p.groups + g) * width;
      const auto* const row = static_cast<const uint8_t*>(w.words) + size_t(n0 + lane) * word_row_bytes(w);
      uint8_t* const scales = out + p.scales_at(g);
      pack_codes_of(w, row, g, lane, out + p.codes_at(g));
      copy_scale(scales + lane * width, static_cast<const uint8_t*>(w.scales) + scale, width);
      if (!w.biases) continue;
      copy_scale(scales + (kPanelOutputs + lane) * width, static_cast<const uint8_t*>(w.biases) + scale, width);
    }
  }
}

}  // namespace

bool has_panel16(const QuantWeight& w) {
  const QuantKind kind = w.format.kind;
  return kind == QuantKind::Mxfp4 || kind == QuantKind::Nvfp4 || (kind == QuantKind::Affine && w.biases);
}

Panel16 panel16_of(const QuantWeight& w) {
  const bool is_affine = w.format.kind == QuantKind::Affine;
  Panel16 p{.groups = w.k / w.format.group};
  p.code_bytes = int64_t{w.format.group} * w.format.bits / 8 * kPanelOutputs;
  p.scale_bytes = scale_width(w) * kPanelOutputs * (is_affine ? 2 : 1);
  p.groups_a_block = std::max<int64_t>(1, kQuadBytes / p.scale_bytes);
  p.block_bytes = p.groups_a_block * (p.code_bytes + p.scale_bytes);
  p.panel_bytes = (p.groups + p.groups_a_block - 1) / p.groups_a_block * p.block_bytes;
  return p;
}

size_t panel16_bytes(const QuantWeight& w) {
  return size_t((w.n + kPanelOutputs - 1) / kPanelOutputs * panel16_of(w).panel_bytes);
}

void pack_panel16(ThreadPool& pool, const QuantWeight& w, void* out) {
  LOFT_CHECK(has_panel16(w) && w.format.group <= kMostGroup);
  const Panel16 p = panel16_of(w);
  pool.parallel_for((w.n + kPanelOutputs - 1) / kPanelOutputs, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) pack_panel(w, p, i, static_cast<uint8_t*>(out) + i * p.panel_bytes);
  });
}

void dequantize_panel16_run(const QuantWeight& w, const void* packed, int64_t row, int64_t first, int64_t count,
                            float* out) {
  constexpr int64_t kMost = 512, kLeastGroup = 16;
  LOFT_CHECK(count <= kMost);
  const Panel16 p = panel16_of(w);
  const int64_t group = w.format.group, bits = w.format.bits, width = scale_width(w), lane = row % kPanelOutputs;
  // The run as a checkpoint has it: one row of `count` inputs.
  uint8_t words[kMost], scales[kMost / kLeastGroup * 4], biases[sizeof scales], codes[kMostGroup];
  const uint8_t* const panel = static_cast<const uint8_t*>(packed) + row / kPanelOutputs * p.panel_bytes;
  for (int64_t i = 0; i < count / group; ++i) {
    const int64_t g = first / group + i;
    Planes<const uint8_t>{int(bits), int(group), panel + p.codes_at(g)}.get(lane, codes);
    pack_codes(codes, int(bits), group, words + i * group * bits / 8);
    const uint8_t* const from = panel + p.scales_at(g) + lane * width;
    std::memcpy(scales + i * width, from, size_t(width));
    if (w.format.kind != QuantKind::Affine) continue;
    std::memcpy(biases + i * width, from + kPanelOutputs * width, size_t(width));
  }
  QuantWeight one = w;
  one.n = 1;
  one.k = count;
  one.words = words;
  one.scales = scales;
  one.biases = w.format.kind == QuantKind::Affine ? biases : nullptr;
  dequantize_run(one, 0, 0, count, out);
}

}  // namespace loft
