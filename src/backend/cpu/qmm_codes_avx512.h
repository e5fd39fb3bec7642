// backend/cpu: the parts of the fixed-point product on AVX-512, a file each.
#pragma once
#include "backend/cpu/qmm_codes.h"

namespace loft {

/// Panels of bytes [k / 4][16][4] (qmm_repack_avx512.cc).
extern const PanelSources kPanelSourcesAvx512;
/// The same from layout Panel16 (qmm_panel16_avx512.cc).
extern const PanelSources kPanel16SourcesAvx512;

/// For 1 to 8 rows, 1 to 3 panels, forms A16 and A8 (qmm_tile_avx512.cc).
TileFunction tile_avx512(int64_t rows, int64_t panels, ActivationForm form);

}  // namespace loft
