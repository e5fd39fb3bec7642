// ops: when a weight is packed into the layout of its kernels (option cpu-repack). Each weight by itself and never
// twice in memory: the packed one is made by all threads, then the pages of the mapped file are dropped.
#pragma once
#include "ops/linear.h"

namespace loft {

/// Under QmmRepack::Auto a weight is packed after this many products. A product of one row then saves about a quarter
/// of its time, and packing takes as long as ten to forty: who stops early pays nothing, who goes on at most twice what
/// packing at once would have cost.
inline constexpr uint64_t kProductsBeforePacking = 64;

/// After the proof of prepare_linear: the weight begins as the checkpoint has it.
void wait_for_packing(Backend& backend, Linear& layer);

/// Before each product. Packs when the time has come; where memory does not allow one weight more, never. Counts both.
void pack_when_due(Backend& backend, PackStats& stats, Linear& layer);

}  // namespace loft
