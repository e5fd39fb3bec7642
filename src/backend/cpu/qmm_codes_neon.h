// backend/cpu: the parts of the fixed-point product on 64-bit ARM, a file each.
#pragma once
#include "backend/cpu/qmm_codes.h"

namespace loft {

/// Panels of bytes [k / 4][16][4], inputs in order (qmm_repack_neon.cc).
extern const PanelSources kPanelSourcesNeon;
/// The same from layout Panel16, inputs quad_stride apart (qmm_panel16_neon.cc).
extern const PanelSources kPanel16SourcesNeon;

/// For 1 to 8 rows and one panel, forms A16 and A8. sdot takes codes as signed bytes, so up to 7 bits; usdot takes all.
TileFunction tile_neondotprod(int64_t rows, int64_t panels, ActivationForm form);
TileFunction tile_neoni8mm(int64_t rows, int64_t panels, ActivationForm form);

}  // namespace loft
