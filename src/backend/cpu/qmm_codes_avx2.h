// backend/cpu: the parts of the fixed-point product on AVX2, a file each. Here a panel holds codes as 16-bit words and
// x is q itself, 16 bits: vpmaddwd multiplies pairs of them exactly. Two byte planes by vpmaddubsw would take as many
// instructions for 4-bit codes and twice as many for 8-bit ones, whose sums of pairs saturate.
#pragma once
#include "backend/cpu/qmm_codes.h"
#include "backend/cpu/qmm_panel16.h"

namespace loft {

/// Panels of words [k / 2][16][2] (qmm_repack_avx2.cc).
extern const PanelSources kPanelSourcesAvx2;
/// The inputs of a pair stand this far apart, as the dwords of a checkpoint give them.
int pair_stride(const QuantFormat& format);
/// The same from layout Panel16, pairs of inputs packed_pair_stride apart (qmm_panel16_avx2.cc).
extern const PanelSources kPanel16SourcesAvx2;
inline int packed_pair_stride(const QuantFormat& format) {
  return 2 * quad_stride(format.bits);
}

/// For 1 to 8 rows and one panel, form A16Words: by vpmaddwd and vpaddd, or by vpdpwssd.
TileFunction tile_avx2(int64_t rows, int64_t panels, ActivationForm form);
TileFunction tile_avxvnni(int64_t rows, int64_t panels, ActivationForm form);

}  // namespace loft
