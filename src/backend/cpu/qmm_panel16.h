// backend/cpu: layout Panel16: a weight packed once, so that the kernels of one row, of a few and of many read one
// straight line and need no transpose. What enters: a weight of 2- to 8-bit codes. What leaves: the same numbers.
//
// A panel is 16 outputs; behind the last output stand zeros. It is a line of blocks, a block the codes of one group (of
// four, for mxfp4 and nvfp4) and then their scales and biases [16] as the checkpoint has them, so everything begins at
// a cache line. Codes stand in quads: four inputs of 16 outputs, [16][4], a byte each; input_at(4, quad_stride(bits),
// place) says which inputs. Quads are squeezed into planes of 4, 2 or 1 bits (5 = 4 + 1, low bits first; 8 stays 8):
// 8 / width quads share 64 bytes, quad j in bits [width j, width (j + 1)) of each. So 2, 4 and 8 bits are the dwords of
// the checkpoint, transposed, and a weight takes as many bytes as before where n is a multiple of 16.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/thread_pool.h"
#include "quant/format.h"

namespace loft {

inline constexpr int64_t kQuadBytes = 64;

/// The inputs of a quad stand this far apart, as the dwords of a checkpoint give them.
constexpr int quad_stride(int bits) {
  return bits == 2 ? 4 : bits == 4 ? 2 : 1;
}
/// Widths of the two planes of a code; the second is 0 where one holds it all.
constexpr int low_bits(int bits) {
  return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits;
}
constexpr int high_bits(int bits) {
  return bits - low_bits(bits);
}

/// Sizes of a packed weight. Bytes count all 16 outputs.
struct Panel16 {
  int64_t groups = 0;
  int64_t groups_a_block = 1;
  int64_t code_bytes = 0;   // of a group: its low plane, then its high plane
  int64_t scale_bytes = 0;  // of a group: scales, then biases
  int64_t block_bytes = 0;
  int64_t panel_bytes = 0;

  int64_t codes_at(int64_t group) const {
    return group / groups_a_block * block_bytes + group % groups_a_block * code_bytes;
  }
  int64_t scales_at(int64_t group) const {
    return group / groups_a_block * block_bytes + groups_a_block * code_bytes + group % groups_a_block * scale_bytes;
  }
};
Panel16 panel16_of(const QuantWeight& w);

/// Affine with biases, mxfp4, nvfp4.
bool has_panel16(const QuantWeight& w);
/// Bytes of the whole packed weight, a multiple of 64.
size_t panel16_bytes(const QuantWeight& w);
/// Packs by all threads. out: panel16_bytes, 64-byte aligned.
void pack_panel16(ThreadPool& pool, const QuantWeight& w, void* out);
/// dequantize_run of a packed weight, to the bit: `w` says format and sizes, its pointers are not read. count <= 512.
void dequantize_panel16_run(const QuantWeight& w, const void* packed, int64_t row, int64_t first, int64_t count,
                            float* out);

}  // namespace loft
