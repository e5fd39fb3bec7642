// backend/cpu: see qmm_codes.h.
#include "backend/cpu/qmm_codes.h"

#include <algorithm>
#include <cstring>

namespace loft {
namespace {

// Repacked at a time, a multiple of every step and group: three panels of bytes (18 KiB) and a slice's planes (6 KiB)
// stay in an L1 of 32 KiB.
constexpr int64_t kChunkInputs = 384;

/// Where a thread keeps a block of panels: codes of a chunk and scales of all groups, a panel after the other, then the
/// sums of all rows of x.
struct BlockSizes {
  int64_t chunk, codes_bytes, panel_bytes, panels;
  int64_t sums(int64_t m) const { return m * panels * kPanelOutputs; }
};
BlockSizes block_sizes(const CodesIsa& isa, const QuantFormat& format, int64_t k) {
  const int64_t step = find_source(*isa.sources, format).step_inputs;
  const int64_t chunk = std::min((k + step - 1) / step * step, kChunkInputs);
  const int64_t codes = chunk * isa.code_bytes * kPanelOutputs;
  return {.chunk = chunk,
          .codes_bytes = codes,
          .panel_bytes = codes + k / format.group * 2 * kPanelOutputs * int64_t{sizeof(float)},
          .panels = isa.max_panels};
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
  int64_t outputs() const { return panels * kPanelOutputs; }

  /// Codes of inputs [first, first + inputs).
  void repack(int64_t first, int64_t inputs, const Ahead& ahead) const {
    const int64_t share = (ahead.end - ahead.begin) / panels;
    for (int64_t p = 0; p < panels; ++p) {
      const uint8_t* const begin = ahead.begin + p * share;
      source.codes(*range.weight, n0 + p * kPanelOutputs, first, inputs, {begin, begin + share}, panel(p));
    }
  }

  /// Inputs [first, first + inputs), whose codes stand in the panels, against all slices.
  void multiply(int64_t first, int64_t inputs, const Ahead& ahead) const {
    const PreparedActivations& x = *range.x;
    const int64_t group = range.weight->format.group, g = first / group, slices = activation_slices(x.m);
    const int64_t share = ((ahead.end - ahead.begin) / slices + 63) & ~int64_t{63};
    PanelTile tile = {.codes = panel(0),
                      .scales = scales(0) + g * 2 * kPanelOutputs,
                      .codes_pitch = sizes.panel_bytes,
                      .scales_pitch = sizes.panel_bytes / int64_t{sizeof(float)},
                      .groups = inputs / group,
                      .group_inputs = group,
                      .ahead = {ahead.begin, ahead.begin}};
    for (int64_t i = 0; i < slices; ++i) {
      const ActivationSlice slice = activation_slice(x, i);
      tile.x = slice.codes + first * slice.planes * slice.rows;
      tile.d = slice.d + g * slice.rows;
      tile.s = slice.s + g * slice.rows;
      tile.ahead = {tile.ahead.end, std::min(ahead.end, tile.ahead.end + share)};
      isa.tile(slice.rows, panels, x.key.form)(tile, sums() + slice.first * outputs());
    }
  }

  void store() const {
    const int64_t count = std::min(outputs(), range.weight->n - n0);
    for (int64_t row = 0; row < range.x->m; ++row) isa.store(*range.y, row, n0, count, sums() + row * outputs());
  }
};

void run_block(const Block& block) {
  const QuantWeight& w = *block.range.weight;
  const int64_t m = block.range.x->m;
  const int64_t row_bytes = block.source.output_bytes ? block.source.output_bytes(w) : w.k * w.format.bits / 8;
  const uint8_t* next = static_cast<const uint8_t*>(w.words) + (block.n0 + block.outputs()) * row_bytes;
  for (int64_t p = 0; p < block.panels; ++p) block.source.scales(w, block.n0 + p * kPanelOutputs, block.scales(p));
  std::memset(block.sums(), 0, size_t(m * block.outputs()) * sizeof(float));
  for (int64_t first = 0; first < w.k; first += block.sizes.chunk) {
    const int64_t inputs = std::min(block.sizes.chunk, w.k - first);
    // While this chunk is at work the next block's outputs come in, as many bytes, shared by time: repacking takes
    // about as long as two rows of x.
    const int64_t bytes = block.outputs() * row_bytes * inputs / w.k;
    const uint8_t* const middle = next + bytes * 2 / (2 + m);
    block.repack(first, inputs, {next, middle});
    block.multiply(first, inputs, {middle, next + bytes});
    next += bytes;
  }
  block.store();
}

}  // namespace

const PanelSource& find_source(const PanelSources& sources, const QuantFormat& format) {
  if (format.kind != QuantKind::Affine) return sources.fp4;
  return sources.affine[format.bits == 8 ? 5 : format.bits - 2];
}

void run_codes(const CodesIsa& isa, const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const BlockSizes sizes = block_sizes(isa, w.format, w.k);
  for (int64_t n = range.begin; n < range.end; n += kPanelOutputs * sizes.panels) {
    run_block({.isa = isa,
               .range = range,
               .source = find_source(*isa.sources, w.format),
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
