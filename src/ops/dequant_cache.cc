#include "ops/dequant_cache.h"

namespace loft {

void DequantCache::set_plan(std::span<const PlannedWeight> weights) {
  const std::lock_guard lock(mutex_);
  lru_.set_plan(weights);
}

std::shared_ptr<const Buffer> DequantCache::acquire(const DequantKey& key, uint64_t bytes,
                                                    const std::function<void(void*)>& decode) {
  {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return in_flight_.count(key) == 0; });
    switch (lru_.look_up(key)) {
      case DequantLru::Answer::Bypass:
        return nullptr;
      case DequantLru::Answer::Hit:
        return dense_.at(key);
      case DequantLru::Answer::Miss:
        in_flight_.insert(key);
        break;
    }
  }
  try {
    return fill(key, bytes, decode);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    in_flight_.erase(key);
    filled_.notify_all();
    throw;
  }
}

// Decodes outside the lock, so that other keys are served meanwhile.
std::shared_ptr<const Buffer> DequantCache::fill(const DequantKey& key, uint64_t bytes,
                                                 const std::function<void(void*)>& decode) {
  auto buffer = std::make_shared<const Buffer>(backend_.allocate(bytes));
  decode(buffer->data());
  const std::lock_guard lock(mutex_);
  if (const auto dropped = lru_.insert(key, bytes)) {
    dense_[key] = buffer;
    for (const DequantKey& old : *dropped) dense_.erase(old);
  }
  in_flight_.erase(key);
  filled_.notify_all();
  return buffer;
}

void DequantCache::count_bypass() {
  const std::lock_guard lock(mutex_);
  lru_.count_bypass();
}

void DequantCache::clear() {
  const std::lock_guard lock(mutex_);
  lru_.clear();
  dense_.clear();
}

DequantCacheStats DequantCache::stats() const {
  const std::lock_guard lock(mutex_);
  return lru_.stats();
}

}  // namespace loft
