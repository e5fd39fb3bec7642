// model: one allocation a sequence, cut into keys and values of each layer.
#include "model/kv_cache.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr uint64_t kAlignment = 64;  // a cache line, so that no two layers share one

/// Bytes of the keys (or the values) of one layer, rounded up to the alignment.
uint64_t part_bytes(const KvLayerShape& layer, const KvCacheShape& shape) {
  const uint64_t dims[] = {uint64_t(layer.n_kv_heads), uint64_t(kv_capacity(layer, shape)), uint64_t(layer.head_dim),
                           dtype_bytes(shape.dtype)};
  const std::optional<uint64_t> bytes = checked_product(dims);
  if (!bytes || *bytes > uint64_t(INT64_MAX) / 2) {
    fail(Code::Unsupported, "KV cache of {} tokens: its size does not fit 63 bits", shape.max_tokens);
  }
  return (*bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t kv_capacity(const KvLayerShape& layer, const KvCacheShape& shape) {
  LOFT_CHECK(shape.max_tokens > 0 && shape.max_chunk > 0);
  if (layer.window == 0) return shape.max_tokens;
  return std::min(shape.max_tokens, layer.window + shape.max_chunk - 1);
}

size_t kv_cache_bytes(const KvCacheShape& shape) {
  uint64_t total = 0;
  for (const KvLayerShape& layer : shape.layers) {
    const uint64_t part = part_bytes(layer, shape);
    const std::optional<uint64_t> sum = checked_add(total, 2 * part);
    if (!sum || *sum > uint64_t(INT64_MAX)) {
      fail(Code::Unsupported, "KV cache of {} tokens: its size does not fit 63 bits", shape.max_tokens);
    }
    total = *sum;
  }
  return size_t(total);
}

KvCache::KvCache(Backend& backend, const KvCacheShape& shape)
    : memory_(backend.allocate(kv_cache_bytes(shape))), max_tokens_(shape.max_tokens), max_chunk_(shape.max_chunk) {
  uint8_t* next = static_cast<uint8_t*>(memory_.data());
  for (const KvLayerShape& layer : shape.layers) {
    const uint64_t part = part_bytes(layer, shape);
    views_.push_back({.dtype = shape.dtype, .k = next, .v = next + part, .capacity = kv_capacity(layer, shape)});
    windows_.push_back(layer.window);
    next += 2 * part;
  }
}

bool KvCache::can_truncate(int64_t n) const {
  if (n < 0 || n > n_tokens_) return false;
  if (n == 0) return true;  // the first row sees none before it
  for (size_t i = 0; i < views_.size(); ++i) {
    if (windows_[i] == 0) continue;
    const int64_t oldest_kept = std::max<int64_t>(0, n_tokens_ - views_[i].capacity);
    const int64_t oldest_seen = std::max<int64_t>(0, n - windows_[i] + 1);
    if (oldest_seen < oldest_kept) return false;
  }
  return true;
}

void KvCache::truncate(int64_t n) {
  LOFT_CHECK_MSG(can_truncate(n), "{} tokens of {}", n, n_tokens_);
  n_tokens_ = n;
}

}  // namespace loft
