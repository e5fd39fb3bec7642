// ops: dense copies of quantized weights, kept under qmm/dequant_lru. One cache an engine. What enters: a key, its
// bytes and a way to decode. What leaves: shared dense memory, or nothing when the weight is better decoded into
// panels.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "backend/backend.h"
#include "core/buffer.h"
#include "qmm/dequant_lru.h"

namespace loft {

/// Thread-safe. Entries live until they are evicted or cleared; memory handed out lives as long as somebody holds it.
class DequantCache {
 public:
  DequantCache(Backend& backend, DequantCacheMode mode, DequantCacheLimits limits)
      : backend_(backend), lru_(mode, limits) {
    backend_.pressure().add(this, [this] { clear(); });
  }
  ~DequantCache() { backend_.pressure().remove(this); }
  DequantCache(const DequantCache&) = delete;
  DequantCache& operator=(const DequantCache&) = delete;

  /// The weights of the loaded model that DequantGemm can touch; decides what admission `auto` does.
  void set_plan(std::span<const PlannedWeight> weights);

  /// The dense weight of `bytes` bytes: found, or decoded by `decode(memory)` and kept if it fits. Threads that miss
  /// the same key at once decode once: the others wait and hit. nullptr: the look-up bypassed. Errors: those of
  /// allocate and decode; nothing is kept then.
  std::shared_ptr<const Buffer> acquire(const DequantKey& key, uint64_t bytes,
                                        const std::function<void(void*)>& decode);

  void count_bypass();
  /// Frees every entry that nobody holds; the backend calls it under memory pressure, Engine::clear_caches at will.
  void clear();
  DequantCacheStats stats() const;

 private:
  std::shared_ptr<const Buffer> fill(const DequantKey& key, uint64_t bytes, const std::function<void(void*)>& decode);

  Backend& backend_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  DequantLru lru_;
  std::map<DequantKey, std::shared_ptr<const Buffer>> dense_;
  std::set<DequantKey> in_flight_;
};

}  // namespace loft
