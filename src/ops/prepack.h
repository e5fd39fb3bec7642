// ops: when a weight is packed into the layout of its kernels (option cpu-repack). Each weight by itself and never
// twice in memory: the packed one is made by all threads, then the pages of the mapped file are dropped.
#pragma once
#include "ops/linear.h"

namespace loft {

/// Under QmmRepack::Auto a weight is packed after this many products. Packing takes about as long as 16 products of one
/// row, each of which then saves 7 to 25 % (docs/quantized_matmul.md), so it has paid after some 64 to 230: who stops
/// early pays nothing, who goes on loses little against packing at once.
inline constexpr uint64_t kProductsBeforePacking = 64;

/// After the proof of prepare_linear: the weight begins as the checkpoint has it.
void wait_for_packing(Backend& backend, Linear& layer);

/// Before each product. Packs when the time has come; where memory does not allow one weight more, never. Counts both.
void pack_when_due(Backend& backend, PackStats& stats, Linear& layer);

}  // namespace loft
