// qmm: the bookkeeping of the dequantized-weight cache: keys, bytes, order, counters; no memory and no lock. The cache
// itself (ops/dequant_cache) and the simulation (qmm/simulate) drive the same object, so both move the same counters.
// Semantics: the published LRU (docs/quantized_matmul.md), plus admission `auto` and counters that also move when off.
#pragma once
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "quant/format.h"

namespace loft {

enum class DequantCacheMode : uint8_t { Auto, Lru, Off };

struct DequantCacheLimits {
  uint64_t max_entries = 8;                  // 0: off
  uint64_t max_bytes = uint64_t(256) << 20;  // 0: off
};

/// What makes two dequantized weights the same. The id is given at load and never reused, unlike an address.
struct DequantKey {
  uint64_t weight_id = 0;
  uint64_t generation = 0;  // moves when the weight's bytes are replaced
  QuantKind kind = QuantKind::Affine;
  int bits = 0;
  int group = 0;
  bool transposed = true;
  DType dtype = DType::F32;  // of the dense rows
  uint64_t stream = 0;
  auto operator<=>(const DequantKey&) const = default;
};

struct DequantCacheStats {
  uint64_t hits = 0, misses = 0, inserts = 0, evictions = 0, bypasses = 0;
  uint64_t entries = 0, bytes = 0;
  bool operator==(const DequantCacheStats&) const = default;
};

/// A weight that some route may dequantize through the cache, registered when a model is loaded.
struct PlannedWeight {
  DequantKey key;
  uint64_t dense_bytes = 0;
};

class DequantLru {
 public:
  enum class Answer : uint8_t { Hit, Miss, Bypass };

  DequantLru(DequantCacheMode mode, DequantCacheLimits limits) : mode_(mode), limits_(limits) {}

  /// Admission `auto`: a pass touches each weight once, in order, so a cache that cannot hold all of them never hits.
  /// Then every look-up bypasses. Without a plan (products outside a model) `auto` is a plain LRU.
  void set_plan(std::span<const PlannedWeight> weights);

  /// Counts exactly one of hit, miss and bypass. A hit moves the entry to the front. After a miss the caller decodes
  /// the weight and calls insert().
  Answer look_up(const DequantKey& key);
  /// Puts the entry in front, unless it is larger than the byte limit, and drops entries from the back while a limit is
  /// exceeded; returns the dropped keys. The newest always stays. nullopt: not cached.
  std::optional<std::vector<DequantKey>> insert(const DequantKey& key, uint64_t bytes);
  /// A route that touches no cache went by.
  void count_bypass() { ++stats_.bypasses; }
  /// Drops every entry; counters of the past stay. Not counted as evictions: nothing pushed them out.
  void clear();

  bool is_on() const { return mode_ != DequantCacheMode::Off && limits_.max_entries > 0 && limits_.max_bytes > 0; }
  const DequantCacheStats& stats() const { return stats_; }

 private:
  struct Entry {
    DequantKey key;
    uint64_t bytes;
  };
  DequantCacheMode mode_;
  DequantCacheLimits limits_;
  bool plan_fits_ = true;
  std::list<Entry> entries_;  // newest first
  std::map<DequantKey, std::list<Entry>::iterator> by_key_;
  DequantCacheStats stats_;
};

}  // namespace loft
