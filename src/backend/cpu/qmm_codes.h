// backend/cpu: the fixed-point product, whatever the format and the instruction set. What enters: a range of outputs of
// a weight of 2- to 8-bit codes (affine, mxfp4, nvfp4), read where it lies in the checkpoint, and activations in fixed
// point (activations.h). What leaves: their columns of y.
//
// Read this first. 16 outputs are the 16 lanes of a panel: a chunk of their codes is repacked so that the lanes of a
// register hold the same inputs of 16 outputs, and then meets all rows of x, eight at a time. Each group of inputs ends
// with the same two steps in the same order, whatever m, the instruction set and the number of panels are:
//     acc = fma(float(sum of code * q) * scale, d, acc);   acc = fma(bias, s, acc)
// The integer sum is exact, so one row of x has the same bytes in every slice, chunk, thread and instruction set.
#pragma once
#include <cstdint>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_rows.h"

namespace loft {

inline constexpr int kPanelOutputs = 16;
inline constexpr int kMaxTilePanels = 3;

/// A straight line of weights that will be wanted next. Memory is slow to answer and takes few questions at a time, so
/// whoever computes asks for it bit by bit: without this the memory rests while a tile is at work.
struct Ahead {
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;
};

/// Asks for the lines of an Ahead over about `times` calls of ask(). Always inlined, as it is used in files of several
/// instruction sets.
class Asker {
 public:
  __attribute__((always_inline)) Asker(const Ahead& ahead, int64_t times)
      : at_(ahead.begin), end_(ahead.end), step_((ahead.end - ahead.begin + 64 * times - 1) / (64 * times) * 64) {}
  __attribute__((always_inline)) void ask() {
    const uint8_t* const stop = end_ - at_ > step_ ? at_ + step_ : end_;
    for (; at_ < stop; at_ += 64) __builtin_prefetch(at_, 0, 2);  // to L2
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  int64_t step_;
};

/// How 16 outputs of a format become a panel; w.words is the weight in the source's layout. Rows past the weight's last
/// are filled with the last.
struct PanelSource {
  int64_t step_inputs;  // `codes` writes whole steps: a panel's end is padded to one
  /// Inputs [first, first + inputs) of outputs n0 .. n0 + 15; first is a multiple of the step.
  void (*codes)(const QuantWeight& w, int64_t n0, int64_t first, int64_t inputs, const Ahead& ahead, uint8_t* panel);
  /// scales [groups][scale, bias][16] of all groups.
  void (*scales)(const QuantWeight& w, int64_t n0, float* scales);
  /// Bytes of an output on the straight line of weights, for Ahead; null: of its words.
  int64_t (*output_bytes)(const QuantWeight& w) = nullptr;
};

/// The sources of an instruction set, one for each width that affine weights have; mxfp4 and nvfp4 share one.
struct PanelSources {
  PanelSource affine[6];  // 2, 3, 4, 5, 6, 8 bits
  PanelSource fp4;
};
/// `make` is a lambda template <int bits, bool is_fp4> that gives the source.
template <typename Make>
consteval PanelSources panel_sources(Make make) {
  return {.affine = {make.template operator()<2, false>(), make.template operator()<3, false>(),
                     make.template operator()<4, false>(), make.template operator()<5, false>(),
                     make.template operator()<6, false>(), make.template operator()<8, false>()},
          .fp4 = make.template operator()<4, true>()};
}
const PanelSource& find_source(const PanelSources& sources, const QuantFormat& format);

/// A code of E2M1 becomes the byte 2 * value + 12, of 0..24, so that w = scale / 2 * byte - 6 scale.
inline constexpr uint8_t kFp4Bytes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
inline constexpr float kFp4Scale = 0.5f, kFp4Bias = -6.0f;

/// Whole groups of some panels against one slice of x. Pointers are those of the first panel and the first group.
struct PanelTile {
  const uint8_t* codes = nullptr;  // as the instruction set has them, 64-byte aligned
  const float* scales = nullptr;   // [groups][scale, bias][16]
  int64_t codes_pitch = 0;         // bytes from panel to panel
  int64_t scales_pitch = 0;        // floats from panel to panel
  const int8_t* x = nullptr;       // of the slice
  const float* d = nullptr;        // [groups][rows]
  const float* s = nullptr;
  int64_t groups = 0;
  int64_t group_inputs = 0;  // a multiple of 16
  Ahead ahead{};
};

/// acc [rows][panels][16] += the groups. 64-byte aligned.
using TileFunction = void (*)(const PanelTile& tile, float* acc);

/// What an instruction set brings to the product.
struct CodesIsa {
  const PanelSources* sources;
  TileFunction (*tile)(int64_t rows, int64_t panels, ActivationForm form);  // rows 1..8, panels 1..max_panels
  /// Rounds `count` sums once to y's type, columns from `column`. sums is 64-byte aligned, whole panels may be read.
  void (*store)(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums);
  int64_t code_bytes;  // of a code in a panel
  int64_t max_panels;  // of a tile
};

void run_codes(const CodesIsa& isa, const CpuQmmRange& range);
size_t codes_scratch_bytes(const CodesIsa& isa, const QmmSpec& spec, int64_t m);

/// Both as an entry wants them.
template <const CodesIsa& isa>
void codes_run(const CpuQmmRange& range) {
  run_codes(isa, range);
}
template <const CodesIsa& isa>
size_t codes_scratch(const QmmSpec& spec, int64_t m, int64_t) {
  return codes_scratch_bytes(isa, spec, m);
}

}  // namespace loft
