// backend/cpu: attention over one chunk of keys for the query rows of one key/value head; included by one file an
// instruction set. Read this first, for each row: s[j] = q . k[j]; peak = max s so far; p[j] = e^(s[j] - peak); sum =
// sum of p; acc = sum of p[j] v[j]; a block of keys with a higher peak scales sum and acc first (online softmax,
// Milakov and Gimelshein 2018, arXiv 1805.02867).
#pragma once
#include "backend/cpu/simd.h"

namespace loft::LOFT_SIMD_NAMESPACE {

constexpr float kMinusInf = -__builtin_inff();
constexpr int kTile = 4;  // query rows that share a loaded key or value

/// A small number as a type, so that a loop over tiles has constant bounds.
template <int kN>
struct Count {
  static constexpr int n = kN;
};

LOFT_INLINE int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
  return x < lo ? lo : x > hi ? hi : x;
}

/// Keys [lo, hi) of a block, as offsets from its first position.
struct KeyRange {
  int64_t lo, hi;
};

LOFT_INLINE KeyRange visible(const AttendArgs& a, int64_t position, int64_t block) {
  int64_t lo = a.window > 0 && position - a.window + 1 > a.begin ? position - a.window + 1 : a.begin;
  int64_t hi = position + 1 < a.end ? position + 1 : a.end;
  lo = (lo < block ? block : lo) - block;
  hi = (hi > block + kKeyBlock ? block + kKeyBlock : hi) - block;
  return {lo, hi};
}

/// The rows of keys or values of a block, where they lie: base + row(j) * stride.
template <class T>
struct BlockRows {
  const T* base;
  int64_t first;  // row of offset 0 of the block, may be up to kKeyBlock below 0
  int64_t capacity;
  int64_t stride;
  LOFT_INLINE const T* at(const BlockRows& b, int64_t j) {
    const int64_t row = b.first + j;
    return b.base + (row >= b.capacity ? row - b.capacity : row) * b.stride;
  }
};

/// Scales of the rows of a block by offset, 0 outside of [lo, hi). of [kKeyBlock].
LOFT_INLINE void block_scales(const float* scales, int64_t first, int64_t capacity, KeyRange range, float* of) {
  for (int64_t j = 0; j < kKeyBlock; ++j) of[j] = 0.0f;
  for (int64_t j = range.lo; j < range.hi; ++j) {
    of[j] = scales[first + j >= capacity ? first + j - capacity : first + j];
  }
}

/// Each of the rows' scores or weights times its key's scale: codes are summed first, as whole numbers.
LOFT_INLINE void scale_block(float* scores, int64_t n_q, const float* scales) {
  F by[4];
  for (int i = 0; i < 4; ++i) by[i] = load(scales + 16 * i);
  for (int64_t row = 0; row < n_q; ++row) {
    float* s = scores + row * kKeyBlock;
    for (int i = 0; i < 4; ++i) store(s + 16 * i, mul(load(s + 16 * i), by[i]));
  }
}

/// acc [dp] *= factor; a factor of 1, the usual one, changes nothing.
LOFT_INLINE void scale_row(float* acc, float factor, int64_t dp) {
  if (factor == 1.0f) return;
  for (int64_t c = 0; c < dp; c += 16) store(acc + c, mul(load(acc + c), set1(factor)));
}

/// Asks for the same elements of the row one block further on: a decode step reads each key and value once, from
/// memory.
template <class T>
LOFT_INLINE void prefetch_next_block(const T* p, int64_t stride, int64_t elements) {
  if constexpr (sizeof(T) < sizeof(float)) {  // packed values are in cache
    const uintptr_t next = reinterpret_cast<uintptr_t>(p) + uintptr_t(kKeyBlock * stride) * sizeof(T);
    for (int64_t c = 0; c < elements; c += 64 / int64_t(sizeof(T))) {
      __builtin_prefetch(reinterpret_cast<const void*>(next + uintptr_t(c) * sizeof(T)));
    }
  }
}

/// s[r][j] for rows of a tile and keys [lo, hi), 16 keys at a time; other keys of those vectors get any value. Lane l
/// of a product sums d = l, l + 16, ..., and sum_lanes joins the lanes.
template <int kRows, class T>
LOFT_INLINE void dot_scores(const float* q, int64_t dp, const BlockRows<T>& k, KeyRange range, float* s) {
  constexpr int kKeys = kTileVectors;  // keys that share a loaded query
  for (int64_t j0 = range.lo & ~int64_t(15); j0 < range.hi; j0 += 16) {
    F sums[kRows][16];
    for (int64_t j = 0; j < 16; j += kKeys) {
      const T* key[kKeys];
      for (int i = 0; i < kKeys; ++i) key[i] = BlockRows<T>::at(k, clamp(j0 + j + i, range.lo, range.hi - 1));
      for (int i = 0; i < kKeys; ++i) prefetch_next_block(key[i], k.stride, dp);
      F acc[kRows][kKeys];
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kKeys; ++i) acc[r][i] = zero();
      }
      for (int64_t c = 0; c < dp; c += 16) {
        F kv[kKeys];
        for (int i = 0; i < kKeys; ++i) kv[i] = load(key[i] + c);
        for (int r = 0; r < kRows; ++r) {
          const F qv = load(q + r * dp + c);
          for (int i = 0; i < kKeys; ++i) acc[r][i] = fma(qv, kv[i], acc[r][i]);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kKeys; ++i) sums[r][j + i] = acc[r][i];
      }
    }
    for (int r = 0; r < kRows; ++r) store(s + r * kKeyBlock + j0, sum_lanes_16(sums[r]));
  }
}

// Keys whose scores a tile of packed_scores holds in registers.
constexpr int kPanelVectors = kTileVectors > 1 ? 2 : 1;
constexpr int64_t kPanel = 16 * kPanelVectors;

/// Keys of a block as columns, for tasks with many query rows: panels [kKeyBlock / kPanel][dp][kPanel], zeros from d to
/// dp.
template <class T>
LOFT_INLINE void pack_keys(const BlockRows<T>& k, KeyRange range, int64_t d, int64_t dp, float* k_columns) {
  for (int64_t j0 = range.lo & ~int64_t(15); j0 < range.hi; j0 += 16) {
    for (int64_t c = 0; c < dp; c += 16) {
      const int64_t count = d - c < 16 ? d - c : 16;
      F rows[16];
      for (int64_t j = 0; j < 16; ++j) {
        const T* key = BlockRows<T>::at(k, clamp(j0 + j, range.lo, range.hi - 1)) + c;
        rows[j] = count == 16 ? load(key) : load_part(key, count);
      }
      transpose_16(rows);
      float* panel = k_columns + j0 / kPanel * kPanel * dp + j0 % kPanel;
      for (int64_t i = 0; i < 16; ++i) store(panel + (c + i) * kPanel, rows[i]);
    }
  }
}

/// Values of a block as f32 rows of dp elements, zeros from d to dp.
template <class T>
LOFT_INLINE void pack_values(const BlockRows<T>& v, KeyRange range, int64_t d, int64_t dp, float* v_rows) {
  for (int64_t j = range.lo; j < range.hi; ++j) {
    const T* from = BlockRows<T>::at(v, j);
    for (int64_t c = 0; c < dp; c += 16) {
      const int64_t count = d - c < 16 ? d - c : 16;
      store(v_rows + j * dp + c, count == 16 ? load(from + c) : load_part(from + c, count));
    }
  }
}

template <int kRows>
struct ScoreTile {
  F s[kRows][kPanelVectors];
};

/// Node of the tree of sum_lanes over the lanes lane, lane + kStep, ...: a leaf is one lane's chain of products, so
/// that dot_scores and packed_scores give the same bytes. panel [dp][kPanel].
template <int kStep, int kRows>
LOFT_INLINE ScoreTile<kRows> sum_tree(const float* q, int64_t dp, const float* panel, int64_t lane) {
  ScoreTile<kRows> t;
  if constexpr (kStep == 16) {
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kPanelVectors; ++i) t.s[r][i] = zero();
    }
    for (int64_t c = lane; c < dp; c += 16) {
      F key[kPanelVectors];
      for (int i = 0; i < kPanelVectors; ++i) key[i] = load(panel + c * kPanel + 16 * i);
      for (int r = 0; r < kRows; ++r) {
        const F qv = set1(q[r * dp + c]);
        for (int i = 0; i < kPanelVectors; ++i) t.s[r][i] = fma(qv, key[i], t.s[r][i]);
      }
    }
  } else {
    t = sum_tree<2 * kStep, kRows>(q, dp, panel, lane);
    const auto other = sum_tree<2 * kStep, kRows>(q, dp, panel, lane + kStep);
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kPanelVectors; ++i) t.s[r][i] = add(t.s[r][i], other.s[r][i]);
    }
  }
  return t;
}

/// As dot_scores, for the keys of one panel; s is at the panel's first key.
template <int kRows>
LOFT_INLINE void packed_scores(const float* q, int64_t dp, const float* panel, float* s) {
  const auto t = sum_tree<1, kRows>(q, dp, panel, 0);
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kPanelVectors; ++i) store(s + r * kKeyBlock + 16 * i, t.s[r][i]);
  }
}

/// acc[r] += sum of p[r][j] v[j] over keys [lo, hi) in ascending order.
template <int kRows, int kVectors, class T>
LOFT_INLINE void add_values_tile(const float* p, const BlockRows<T>& v, int64_t c0, KeyRange range, int64_t dp,
                                 float* acc) {
  F a[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) a[r][c] = load(acc + r * dp + c0 + 16 * c);
  }
  for (int64_t j = range.lo; j < range.hi; ++j) {
    const T* value = BlockRows<T>::at(v, j) + c0;
    prefetch_next_block(value, v.stride, 16 * kVectors);
    F row[kVectors];
    for (int c = 0; c < kVectors; ++c) row[c] = load(value + 16 * c);
    for (int r = 0; r < kRows; ++r) {
      const F weight = set1(p[r * kKeyBlock + j]);
      for (int c = 0; c < kVectors; ++c) a[r][c] = fma(weight, row[c], a[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) store(acc + r * dp + c0 + 16 * c, a[r][c]);
  }
}

/// Pieces of attend's scratch.
struct BlockMemory {
  float* scores;     // [padded_rows][kKeyBlock]
  float* k_columns;  // panels
  float* v_rows;     // [kKeyBlock][dp]
  float* lo;         // [padded_rows], the row sees keys [lo, hi) of the block: small whole numbers
  float* hi;
  bool sees_all;  // every row sees every key of the block; lo and hi are not set then
  LOFT_INLINE KeyRange range(const BlockMemory& m, int64_t row) {
    if (m.sees_all) return {0, kKeyBlock};
    return {int64_t(m.lo[row]), int64_t(m.hi[row])};
  }
};
LOFT_INLINE BlockMemory cut_scratch(const AttendArgs& a, int64_t dp) {
  const int64_t rows = padded_rows(a.n_q);
  BlockMemory m;
  m.scores = a.scratch;
  m.k_columns = m.scores + rows * kKeyBlock;
  m.v_rows = m.k_columns + kKeyBlock * dp;
  m.lo = m.v_rows + kKeyBlock * dp;
  m.hi = m.lo + rows;
  m.sees_all = false;
  return m;
}

/// Which keys of the block each row sees.
LOFT_INLINE void set_ranges(const AttendArgs& a, BlockMemory& m, int64_t block) {
  const int64_t last = a.first_position + (a.n_q - 1) / a.group;
  const KeyRange first_sees = visible(a, a.first_position, block), last_sees = visible(a, last, block);
  m.sees_all = first_sees.lo == 0 && first_sees.hi == kKeyBlock && last_sees.lo == 0 && last_sees.hi == kKeyBlock;
  if (m.sees_all) return;
  for (int64_t row = 0, position = a.first_position; row < a.n_q; ++position) {
    const KeyRange range = visible(a, position, block);
    for (int64_t g = 0; g < a.group; ++g, ++row) {
      m.lo[row] = range.lo < range.hi ? float(range.lo) : 0.0f;
      m.hi[row] = range.lo < range.hi ? float(range.hi) : 0.0f;
    }
  }
}

/// Calls f(rows a tile as a constant, first row) over all query rows.
template <class Function>
LOFT_INLINE void for_tiles(int64_t n_q, Function f) {
  int64_t row = 0;
  for (; row + kTile <= n_q; row += kTile) f(Count<kTile>(), row);
  switch (n_q - row) {
    case 3:
      f(Count<3>(), row);
      break;
    case 2:
      f(Count<2>(), row);
      break;
    case 1:
      f(Count<1>(), row);
      break;
    default:
      break;
  }
}

/// Keys that any row of a tile sees, and keys that all of them see; lo >= hi: none.
struct TileRange {
  KeyRange any, common;
};
LOFT_INLINE TileRange tile_range(const BlockMemory& m, int64_t row, int n) {
  if (m.sees_all) return {{0, kKeyBlock}, {0, kKeyBlock}};
  TileRange t = {{kKeyBlock, 0}, {0, kKeyBlock}};
  for (int r = 0; r < n; ++r) {
    const KeyRange own = BlockMemory::range(m, row + r);
    if (own.lo < own.hi) {
      t.any = {t.any.lo < own.lo ? t.any.lo : own.lo, t.any.hi > own.hi ? t.any.hi : own.hi};
    }
    t.common = {t.common.lo > own.lo ? t.common.lo : own.lo, t.common.hi < own.hi ? t.common.hi : own.hi};
  }
  if (t.common.lo >= t.common.hi) t.common = {kKeyBlock, kKeyBlock};
  return t;
}

/// Scores of a block with the keys as they lie in the cache.
template <class T>
LOFT_INLINE void cached_block_scores(const AttendArgs& a, const BlockMemory& m, const BlockRows<T>& k, int64_t dp) {
  for_tiles(a.n_q, [&](auto count, int64_t row) {
    const KeyRange any = tile_range(m, row, count.n).any;
    if (any.lo < any.hi) dot_scores<count.n>(a.q + row * dp, dp, k, any, m.scores + row * kKeyBlock);
  });
}

/// Scores of a block with packed keys; a panel stays in L1 for all rows.
LOFT_INLINE void packed_block_scores(const AttendArgs& a, const BlockMemory& m, int64_t dp) {
  for (int64_t j0 = 0; j0 < kKeyBlock; j0 += kPanel) {
    for_tiles(a.n_q, [&](auto count, int64_t row) {
      const KeyRange any = tile_range(m, row, count.n).any;
      if (any.lo >= j0 + kPanel || any.hi <= j0) return;
      packed_scores<count.n>(a.q + row * dp, dp, m.k_columns + j0 * dp, m.scores + row * kKeyBlock + j0);
    });
  }
}

/// acc[r][c0 ..] += sum of p[r][j] v[j][c0 ..] for kVectors vectors. Each row adds its keys in ascending order and no
/// others: a masked value may be NaN, and 0 * NaN is NaN.
template <int kVectors, class T>
LOFT_INLINE void block_values(const AttendArgs& a, const BlockMemory& m, const BlockRows<T>& v, int64_t c0,
                              int64_t dp) {
  for_tiles(a.n_q, [&](auto count, int64_t row) {
    const TileRange t = tile_range(m, row, count.n);
    const float* p = m.scores + row * kKeyBlock;
    float* acc = a.acc + row * dp;
    for (int64_t r = 0; r < count.n && !m.sees_all; ++r) {
      const KeyRange own = BlockMemory::range(m, row + r);
      const KeyRange before = {own.lo, own.hi < t.common.lo ? own.hi : t.common.lo};
      add_values_tile<1, kVectors>(p + r * kKeyBlock, v, c0, before, dp, acc + r * dp);
    }
    add_values_tile<count.n, kVectors>(p, v, c0, t.common, dp, acc);
    for (int64_t r = 0; r < count.n && !m.sees_all; ++r) {
      const KeyRange after = {t.common.hi, BlockMemory::range(m, row + r).hi};
      add_values_tile<1, kVectors>(p + r * kKeyBlock, v, c0, after, dp, acc + r * dp);
    }
  });
}

/// Scores as the softmax wants them: capped, and -inf outside of [lo, hi).
LOFT_INLINE void mask_scores(float* s, KeyRange range, float softcap) {
  if (softcap > 0.0f) {
    const F cap = set1(softcap);
    for (int64_t j = range.lo & ~int64_t(15); j < range.hi; j += 16) {
      store(s + j, mul(cap, tanh(div(load(s + j), cap))));
    }
  }
  for (int64_t j = 0; j < range.lo; ++j) s[j] = kMinusInf;
  for (int64_t j = range.hi; j < kKeyBlock; ++j) s[j] = kMinusInf;
}

/// Scores become weights e^(s - peak) in place, for `count` rows, at most 16 (their trees of lanes run as one), and the
/// state so far is brought to the new peak.
LOFT_INLINE void softmax_rows(const AttendArgs& a, const BlockMemory& m, int64_t row, int64_t count, int64_t dp) {
  float* const scores = m.scores + row * kKeyBlock;
  if (!m.sees_all || a.softcap > 0.0f) {
    for (int64_t r = 0; r < count; ++r) {
      mask_scores(scores + r * kKeyBlock, BlockMemory::range(m, row + r), a.softcap);
    }
  }
  F lanes[16];
  for (int64_t r = 0; r < 16; ++r) lanes[r] = zero();
  for (int64_t r = 0; r < count; ++r) {
    const float* s = scores + r * kKeyBlock;
    lanes[r] = max(max(load(s), load(s + 16)), max(load(s + 32), load(s + 48)));
  }
  const F old_peak = load(a.peak + row);
  const F peak = max(old_peak, max_lanes_16(lanes));
  // A NaN on either side stays in one of the differences.
  const F factor = exp_not_positive(sub(old_peak, peak));
  alignas(64) float factors[16];
  store(a.peak + row, peak);
  store(factors, factor);
  for (int64_t r = 0; r < count; ++r) {
    float* s = scores + r * kKeyBlock;
    const F top = set1(a.peak[row + r]);
    F v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = exp_not_positive(sub(load(s + 16 * i), top));
      store(s + 16 * i, v[i]);
    }
    lanes[r] = add(add(v[0], v[1]), add(v[2], v[3]));
    scale_row(a.acc + (row + r) * dp, factors[r], dp);
  }
  store(a.sum + row, fma(load(a.sum + row), factor, sum_lanes_16(lanes)));
}

/// Weights from scores, and sums of values; `scales` of the values where they are codes, else null.
template <class T>
LOFT_INLINE void finish_block(const AttendArgs& a, const BlockMemory& m, const BlockRows<T>& v, int64_t dp,
                              const float* scales) {
  for (int64_t row = 0; row < a.n_q; row += 16) softmax_rows(a, m, row, a.n_q - row < 16 ? a.n_q - row : 16, dp);
  if (scales) scale_block(m.scores, a.n_q, scales);
  int64_t c = 0;
  for (; c + 16 * kTileVectors <= dp; c += 16 * kTileVectors) block_values<kTileVectors>(a, m, v, c, dp);
  for (; c < dp; c += 16) block_values<1>(a, m, v, c, dp);
}

// Query rows from which packing a block pays: it costs about as much as two tiles of four rows.
constexpr int64_t kPackFromRows = 16;

inline void clear_state(const AttendArgs& a, int64_t dp) {
  for (int64_t i = 0; i < padded_rows(a.n_q); i += 16) {
    store(a.peak + i, set1(kNoPeak));
    store(a.sum + i, zero());
  }
  for (int64_t i = 0; i < a.n_q * dp; i += 16) store(a.acc + i, zero());
}

template <class T>
void attend_chunk(const AttendArgs& a) {
  const int64_t dp = (a.d + 15) / 16 * 16;
  clear_state(a, dp);
  BlockMemory m = cut_scratch(a, dp);
  for (int64_t block = a.begin / kKeyBlock * kKeyBlock; block < a.end; block += kKeyBlock) {
    set_ranges(a, m, block);
    // Offsets from the first wanted position on; its row is in [0, capacity), so `first` may lie below 0.
    const int64_t lo = (a.begin > block ? a.begin : block) - block;
    const int64_t hi = (a.end < block + kKeyBlock ? a.end : block + kKeyBlock) - block;
    const int64_t first = (block + lo) % a.capacity - lo;
    const BlockRows<T> k = {static_cast<const T*>(a.k), first, a.capacity, a.d};
    const BlockRows<T> v = {static_cast<const T*>(a.v), first, a.capacity, a.d};
    const bool is_packed = a.d != dp || a.n_q >= kPackFromRows;
    if (is_packed) {
      pack_keys(k, {lo, hi}, a.d, dp, m.k_columns);
      pack_values(v, {lo, hi}, a.d, dp, m.v_rows);
      packed_block_scores(a, m, dp);
    } else {
      cached_block_scores(a, m, k, dp);
    }
    const auto finish = [&](const float* scales) {
      if (is_packed) {
        finish_block(a, m, BlockRows<float>{m.v_rows, 0, kKeyBlock, dp}, dp, scales);
      } else {
        finish_block(a, m, v, dp, scales);
      }
    };
    if constexpr (sizeof(T) == 1) {
      alignas(64) float scales[kKeyBlock];
      block_scales(a.k_scales, first, a.capacity, {lo, hi}, scales);
      scale_block(m.scores, a.n_q, scales);
      block_scales(a.v_scales, first, a.capacity, {lo, hi}, scales);
      finish(scales);
    } else {
      finish(nullptr);
    }
  }
}

inline void merge_rows(const AttendArgs& total, const AttendArgs& part, int64_t dp) {
  for (int64_t row = 0; row < total.n_q; row += 16) {
    const F old_peak = load(total.peak + row), other = load(part.peak + row);
    // A NaN on either side stays in one of the differences.
    const F peak = max(old_peak, other);
    const F factor = exp_not_positive(sub(old_peak, peak)), part_factor = exp_not_positive(sub(other, peak));
    store(total.peak + row, peak);
    store(total.sum + row, fma(load(total.sum + row), factor, mul(load(part.sum + row), part_factor)));
    alignas(64) float factors[16], part_factors[16];
    store(factors, factor);
    store(part_factors, part_factor);
    for (int64_t r = 0; r < 16 && row + r < total.n_q; ++r) {
      float* to = total.acc + (row + r) * dp;
      const float* from = part.acc + (row + r) * dp;
      const F old_factor = set1(factors[r]), new_factor = set1(part_factors[r]);
      for (int64_t c = 0; c < dp; c += 16) {
        store(to + c, fma(load(from + c), new_factor, mul(load(to + c), old_factor)));
      }
    }
  }
}

template <class Y>
void finish_row(const float* acc, float sum, void* y, int64_t d) {
  const F s = set1(sum);
  map_row(acc, static_cast<Y*>(y), d, [&](F v) { return div(v, s); });
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
