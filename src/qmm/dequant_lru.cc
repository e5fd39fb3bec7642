#include "qmm/dequant_lru.h"

#include "core/checked.h"

namespace loft {

void DequantLru::set_plan(std::span<const PlannedWeight> weights) {
  std::map<DequantKey, uint64_t> distinct;
  for (const PlannedWeight& w : weights) distinct[w.key] = w.dense_bytes;
  uint64_t bytes = 0;
  bool bytes_fit = true;
  for (const auto& [key, dense_bytes] : distinct) {
    const auto sum = checked_add(bytes, dense_bytes);
    bytes_fit = bytes_fit && sum.has_value();
    bytes = sum.value_or(0);
  }
  plan_fits_ = bytes_fit && distinct.size() <= limits_.max_entries && bytes <= limits_.max_bytes;
}

DequantLru::Answer DequantLru::look_up(const DequantKey& key) {
  if (!is_on() || (mode_ == DequantCacheMode::Auto && !plan_fits_)) {
    ++stats_.bypasses;
    return Answer::Bypass;
  }
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    ++stats_.misses;
    return Answer::Miss;
  }
  ++stats_.hits;
  entries_.splice(entries_.begin(), entries_, found->second);
  return Answer::Hit;
}

std::optional<std::vector<DequantKey>> DequantLru::insert(const DequantKey& key, uint64_t bytes) {
  if (!is_on() || bytes > limits_.max_bytes || by_key_.count(key)) return std::nullopt;
  entries_.push_front({key, bytes});
  by_key_[key] = entries_.begin();
  ++stats_.inserts;
  ++stats_.entries;
  stats_.bytes += bytes;
  std::vector<DequantKey> dropped;
  while (stats_.entries > limits_.max_entries || stats_.bytes > limits_.max_bytes) {
    const Entry& oldest = entries_.back();
    dropped.push_back(oldest.key);
    by_key_.erase(oldest.key);
    stats_.bytes -= oldest.bytes;
    --stats_.entries;
    ++stats_.evictions;
    entries_.pop_back();
  }
  return dropped;
}

void DequantLru::clear() {
  entries_.clear();
  by_key_.clear();
  stats_.entries = 0;
  stats_.bytes = 0;
}

}  // namespace loft
