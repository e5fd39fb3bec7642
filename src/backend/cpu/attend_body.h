// backend/cpu: attention over one chunk of keys for the query rows of one key/value head; included by one file an
// instruction set. Read this first, for each row: s[j] = q . k[j]; peak = max s; p[j] = e^(s[j] - peak); sum = sum of
// p; acc = sum of p[j] v[j]; blocks are folded by merge_rows (online softmax, Milakov and Gimelshein 2018, arXiv
// 1805.02867).
#pragma once
#include "backend/cpu/simd.h"

namespace loft::LOFT_SIMD_NAMESPACE {

constexpr float kMinusInf = -__builtin_inff();
constexpr int kTile = 4;  // query rows that share a loaded key or value

LOFT_INLINE int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
  return x < lo ? lo : x > hi ? hi : x;
}

/// Keys [lo, hi) of a block, as offsets from its first position.
struct KeyRange {
  int64_t lo, hi;
};

LOFT_INLINE KeyRange visible(const AttendArgs& a, int64_t row, int64_t block) {
  const int64_t position = a.first_position + row / a.group;
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

/// Folds (peak, sum, acc) of a part into a total, n vectors of 16 lanes: one exp for both factors.
LOFT_INLINE void merge_row(float& peak, float& sum, float* acc, float part_peak, float part_sum, const float* part_acc,
                           int64_t dp) {
  // As x86's max: a NaN in either becomes NaN below, since it stays in one of the differences.
  const float new_peak = peak > part_peak ? peak : part_peak;
  float factors[16] = {peak - new_peak, part_peak - new_peak};
  store(factors, exp(load(factors)));
  const F old_factor = set1(factors[0]);
  const F part_factor = set1(factors[1]);
  sum = sum * factors[0] + part_sum * factors[1];
  peak = new_peak;
  for (int64_t c = 0; c < dp; c += 16) {
    store(acc + c, fma(load(part_acc + c), part_factor, mul(load(acc + c), old_factor)));
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

/// Keys of a block as columns, for tasks with many query rows: k_columns [dp][kKeyBlock], zeros from d to dp.
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
      for (int64_t i = 0; i < 16; ++i) store(k_columns + (c + i) * kKeyBlock + j0, rows[i]);
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

template <int kRows, int kVectors>
struct ScoreTile {
  F s[kRows][kVectors];
};

/// Node of the tree of sum_lanes over the lanes lane, lane + kStep, ...: a leaf is one lane's chain of products, so
/// that dot_scores and packed_scores give the same bytes.
template <int kStep, int kRows, int kVectors>
LOFT_INLINE ScoreTile<kRows, kVectors> sum_tree(const float* q, int64_t dp, const float* k_columns, int64_t lane) {
  ScoreTile<kRows, kVectors> t;
  if constexpr (kStep == 16) {
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVectors; ++i) t.s[r][i] = zero();
    }
    for (int64_t c = lane; c < dp; c += 16) {
      F key[kVectors];
      for (int i = 0; i < kVectors; ++i) key[i] = load(k_columns + c * kKeyBlock + 16 * i);
      for (int r = 0; r < kRows; ++r) {
        const F qv = set1(q[r * dp + c]);
        for (int i = 0; i < kVectors; ++i) t.s[r][i] = fma(qv, key[i], t.s[r][i]);
      }
    }
  } else {
    t = sum_tree<2 * kStep, kRows, kVectors>(q, dp, k_columns, lane);
    const auto other = sum_tree<2 * kStep, kRows, kVectors>(q, dp, k_columns, lane + kStep);
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVectors; ++i) t.s[r][i] = add(t.s[r][i], other.s[r][i]);
    }
  }
  return t;
}

/// As dot_scores, over packed keys.
template <int kRows>
LOFT_INLINE void packed_scores(const float* q, int64_t dp, const float* k_columns, KeyRange range, float* s) {
  constexpr int kVectors = kTileVectors > 1 ? 2 : 1;
  for (int64_t j0 = range.lo / (16 * kVectors) * (16 * kVectors); j0 < range.hi; j0 += 16 * kVectors) {
    const auto t = sum_tree<1, kRows, kVectors>(q, dp, k_columns + j0, 0);
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVectors; ++i) store(s + r * kKeyBlock + j0 + 16 * i, t.s[r][i]);
    }
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

template <int kRows, class T>
LOFT_INLINE void add_values(const float* p, const BlockRows<T>& v, KeyRange range, int64_t dp, float* acc) {
  int64_t c = 0;
  constexpr int kVectors = kTileVectors;
  for (; c + 16 * kVectors <= dp; c += 16 * kVectors) add_values_tile<kRows, kVectors>(p, v, c, range, dp, acc);
  for (; c < dp; c += 16) add_values_tile<kRows, 1>(p, v, c, range, dp, acc);
}

/// Turns scores into weights in place; scores outside [lo, hi) count as -inf. Returns the block's peak and sum.
struct PeakSum {
  float peak, sum;
};
LOFT_INLINE PeakSum softmax_block(float* s, KeyRange range, float softcap) {
  if (softcap > 0.0f) {
    const F cap = set1(softcap);
    for (int64_t j = range.lo & ~int64_t(15); j < range.hi; j += 16) {
      store(s + j, mul(cap, tanh(div(load(s + j), cap))));
    }
  }
  for (int64_t j = 0; j < range.lo; ++j) s[j] = kMinusInf;
  for (int64_t j = range.hi; j < kKeyBlock; ++j) s[j] = kMinusInf;
  F v[4];
  for (int i = 0; i < 4; ++i) v[i] = load(s + 16 * i);
  const float peak = max_lanes(max(max(v[0], v[1]), max(v[2], v[3])));
  const F top = set1(peak);
  for (int i = 0; i < 4; ++i) {
    v[i] = exp(sub(v[i], top));
    store(s + 16 * i, v[i]);
  }
  return {peak, sum_lanes(add(add(v[0], v[1]), add(v[2], v[3])))};
}

/// Keys as they lie in the cache, or packed.
template <class T>
struct CachedKeys {
  BlockRows<T> rows;
  template <int kRows>
  LOFT_INLINE void scores(const CachedKeys& k, const float* q, int64_t dp, KeyRange range, float* s) {
    dot_scores<kRows>(q, dp, k.rows, range, s);
  }
};
struct PackedKeys {
  const float* columns;
  template <int kRows>
  LOFT_INLINE void scores(const PackedKeys& k, const float* q, int64_t dp, KeyRange range, float* s) {
    packed_scores<kRows>(q, dp, k.columns, range, s);
  }
};

/// One block of keys for kRows query rows from `row` on.
template <int kRows, class Keys, class T>
LOFT_INLINE void attend_tile(const AttendArgs& a, int64_t row, int64_t block, const Keys& k, const BlockRows<T>& v,
                             int64_t dp) {
  float* s = a.scratch + row * kKeyBlock;
  float* part = a.scratch + a.n_q * kKeyBlock + 2 * kKeyBlock * dp + row * dp;
  KeyRange ranges[kRows];
  KeyRange all = {kKeyBlock, 0}, common = {0, kKeyBlock};
  for (int r = 0; r < kRows; ++r) {
    ranges[r] = visible(a, row + r, block);
    if (ranges[r].lo >= ranges[r].hi) {
      common = {0, 0};
      continue;
    }
    all = {all.lo < ranges[r].lo ? all.lo : ranges[r].lo, all.hi > ranges[r].hi ? all.hi : ranges[r].hi};
    common = {common.lo > ranges[r].lo ? common.lo : ranges[r].lo, common.hi < ranges[r].hi ? common.hi : ranges[r].hi};
  }
  if (all.lo >= all.hi) return;
  Keys::template scores<kRows>(k, a.q + row * dp, dp, all, s);
  PeakSum folded[kRows];
  for (int r = 0; r < kRows; ++r) {
    if (ranges[r].lo < ranges[r].hi) folded[r] = softmax_block(s + r * kKeyBlock, ranges[r], a.softcap);
    for (int64_t c = 0; c < dp; c += 16) store(part + r * dp + c, zero());
  }
  if (common.lo >= common.hi) common = {kKeyBlock, kKeyBlock};
  // Each row adds its keys in ascending order and no others: a masked value may be NaN, and 0 * NaN is NaN.
  for (int r = 0; r < kRows; ++r) {
    const KeyRange before = {ranges[r].lo, ranges[r].hi < common.lo ? ranges[r].hi : common.lo};
    add_values<1>(s + r * kKeyBlock, v, before, dp, part + r * dp);
  }
  add_values<kRows>(s, v, common, dp, part);
  for (int r = 0; r < kRows; ++r) {
    if (ranges[r].lo >= ranges[r].hi) continue;
    if (common.hi < kKeyBlock) add_values<1>(s + r * kKeyBlock, v, {common.hi, ranges[r].hi}, dp, part + r * dp);
    merge_row(a.peak[row + r], a.sum[row + r], a.acc + (row + r) * dp, folded[r].peak, folded[r].sum, part + r * dp,
              dp);
  }
}

template <class Keys, class T>
static __attribute__((noinline)) void attend_block(const AttendArgs& a, int64_t block, const Keys& k,
                                                   const BlockRows<T>& v, int64_t dp) {
  int64_t row = 0;
  for (; row + kTile <= a.n_q; row += kTile) attend_tile<kTile>(a, row, block, k, v, dp);
  switch (a.n_q - row) {
    case 3:
      attend_tile<3>(a, row, block, k, v, dp);
      break;
    case 2:
      attend_tile<2>(a, row, block, k, v, dp);
      break;
    case 1:
      attend_tile<1>(a, row, block, k, v, dp);
      break;
    default:
      break;
  }
}

// Query rows from which packing a block pays: it costs about as much as two tiles of four rows.
constexpr int64_t kPackFromRows = 16;

template <class T>
void attend_chunk(const AttendArgs& a) {
  const int64_t dp = (a.d + 15) / 16 * 16;
  for (int64_t i = 0; i < a.n_q; ++i) {
    a.peak[i] = kMinusInf;
    a.sum[i] = 0.0f;
  }
  for (int64_t i = 0; i < a.n_q * dp; i += 16) store(a.acc + i, zero());
  float* k_columns = a.scratch + a.n_q * kKeyBlock;
  float* v_rows = k_columns + kKeyBlock * dp;
  for (int64_t block = a.begin / kKeyBlock * kKeyBlock; block < a.end; block += kKeyBlock) {
    // Offsets from the first wanted position on; its row is in [0, capacity), so `first` may lie below 0.
    const int64_t lo = (a.begin > block ? a.begin : block) - block;
    const int64_t hi = (a.end < block + kKeyBlock ? a.end : block + kKeyBlock) - block;
    const int64_t first = (block + lo) % a.capacity - lo;
    const BlockRows<T> k = {static_cast<const T*>(a.k), first, a.capacity, a.d};
    const BlockRows<T> v = {static_cast<const T*>(a.v), first, a.capacity, a.d};
    if (a.d == dp && a.n_q < kPackFromRows) {
      attend_block(a, block, CachedKeys<T>{k}, v, dp);
      continue;
    }
    pack_keys(k, {lo, hi}, a.d, dp, k_columns);
    pack_values(v, {lo, hi}, a.d, dp, v_rows);
    attend_block(a, block, PackedKeys{k_columns}, BlockRows<float>{v_rows, 0, kKeyBlock, dp}, dp);
  }
}

inline void merge_rows(AttendArgs& total, const AttendArgs& part, int64_t dp) {
  for (int64_t i = 0; i < total.n_q; ++i) {
    if (part.peak[i] == kMinusInf && part.sum[i] == 0.0f) continue;
    merge_row(total.peak[i], total.sum[i], total.acc + i * dp, part.peak[i], part.sum[i], part.acc + i * dp, dp);
  }
}

template <class Y>
void finish_row(const float* acc, float sum, void* y, int64_t d) {
  const F s = set1(sum);
  map_row(acc, static_cast<Y*>(y), d, [&](F v) { return div(v, s); });
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
