// backend/cpu: see qmm_codes.h.
#include "backend/cpu/qmm_codes.h"

#include <algorithm>
#include <cstring>

namespace loft {
namespace {

/// Where a thread keeps a block of panels: codes of a chunk and scales of all groups, a panel after the other, then the
/// sums of all rows of x.
struct BlockSizes {
  int64_t chunk, codes_bytes, panel_bytes, panels;
  int64_t sums(int64_t m) const { return m * panels * kPanelOutputs; }
};
BlockSizes block_sizes(const CodesIsa& isa, const QuantFormat& format, int64_t k) {
  const int64_t step = isa.source(format).step_inputs;
  const int64_t chunk = std::min((k + step - 1) / step * step, isa.chunk_inputs);
  const int64_t codes = chunk * isa.code_bytes * kPanelOutputs;
  return {.chunk = chunk,
          .codes_bytes = codes,
          .panel_bytes = codes + k / format.group * 2 * kPanelOutputs * int64_t{sizeof(float)},
          .panels = isa.max_panels};
}

/// Part i of n equal parts.
Ahead piece(const Ahead& a, int64_t i, int64_t n) {
  const int64_t bytes = a.end - a.begin;
  return {a.begin + bytes * i / n, a.begin + bytes * (i + 1) / n};
}

/// Outputs n0 .. n0 + 16 panels - 1 of one call.
struct Block {
  const CodesIsa& isa;
  const CpuQmmRange& range;
  const PanelSource& source;
  BlockSizes sizes;
  int64_t n0, panels;

  uint8_t* panel(int64_t p) const { return static_cast<uint8_t*>(range.scratch) + p * sizes.panel_bytes; }
  float* scales(int64_t p) const { return reinterpret_cast<float*>(panel(p) + sizes.codes_bytes); }
  float* sums() const { return reinterpret_cast<float*>(panel(sizes.panels)); }

  /// Codes of inputs [first, first + inputs).
  void repack(int64_t first, int64_t inputs, const Ahead& ahead) const {
    for (int64_t p = 0; p < panels; ++p) {
      source.codes(*range.weight, n0 + p * kPanelOutputs, first, inputs, piece(ahead, p, panels), panel(p));
    }
  }

  void multiply(const ActivationSlice& slice, int64_t first, int64_t inputs, const Ahead& ahead) const {
    const int64_t group = range.weight->format.group, g = first / group;
    const PanelTile tile = {.codes = panel(0),
                            .scales = scales(0) + g * 2 * kPanelOutputs,
                            .codes_pitch = sizes.panel_bytes,
                            .scales_pitch = sizes.panel_bytes / int64_t{sizeof(float)},
                            .x = slice.codes + first * slice.planes * slice.rows,
                            .d = slice.d + g * slice.rows,
                            .s = slice.s + g * slice.rows,
                            .groups = inputs / group,
                            .group_inputs = group,
                            .ahead = ahead};
    isa.tile(slice.rows, panels, range.x->key.form)(tile, sums() + slice.first * panels * kPanelOutputs);
  }

  void store() const {
    const float* at = sums();
    for (int64_t row = 0; row < range.x->m; ++row) {
      for (int64_t p = 0; p < panels; ++p, at += kPanelOutputs) {
        const int64_t n = n0 + p * kPanelOutputs;
        isa.store(*range.y, row, n, std::min<int64_t>(kPanelOutputs, range.weight->n - n), at);
      }
    }
  }
};

void run_block(const Block& block) {
  const QuantWeight& w = *block.range.weight;
  const int64_t m = block.range.x->m, row_bytes = w.k * w.format.bits / 8, outputs = block.panels * kPanelOutputs;
  const int64_t slices = activation_slices(m);
  const uint8_t* next = static_cast<const uint8_t*>(w.words) + (block.n0 + outputs) * row_bytes;
  for (int64_t p = 0; p < block.panels; ++p) block.source.scales(w, block.n0 + p * kPanelOutputs, block.scales(p));
  std::memset(block.sums(), 0, size_t(m * outputs) * sizeof(float));
  for (int64_t first = 0; first < w.k; first += block.sizes.chunk) {
    const int64_t inputs = std::min(block.sizes.chunk, w.k - first);
    // While this chunk is at work the next block's outputs come in, as many bytes, shared by time: repacking takes
    // about as long as two rows of x.
    const int64_t bytes = outputs * inputs * w.format.bits / 8;
    const uint8_t* const middle = next + bytes * 2 / (2 + m);
    block.repack(first, inputs, {next, middle});
    for (int64_t i = 0; i < slices; ++i) {
      block.multiply(activation_slice(*block.range.x, i), first, inputs, piece({middle, next + bytes}, i, slices));
    }
    next += bytes;
  }
  block.store();
}

}  // namespace

void run_codes(const CodesIsa& isa, const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const BlockSizes sizes = block_sizes(isa, w.format, w.k);
  for (int64_t n = range.begin; n < range.end; n += kPanelOutputs * sizes.panels) {
    run_block({.isa = isa,
               .range = range,
               .source = isa.source(w.format),
               .sizes = sizes,
               .n0 = n,
               .panels = std::min(sizes.panels, (range.end - n + kPanelOutputs - 1) / kPanelOutputs)});
  }
}

size_t codes_scratch_bytes(const CodesIsa& isa, const QmmSpec& spec, int64_t m) {
  const BlockSizes sizes = block_sizes(isa, spec.format, spec.k);
  return size_t(sizes.panel_bytes * sizes.panels) + size_t(sizes.sums(m)) * sizeof(float);
}

}  // namespace loft
