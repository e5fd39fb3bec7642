// model: one allocation a layer: keys, values, then the scales of both where rows have one.
#include "model/kv_cache.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr uint64_t kAlignment = 64;  // a cache line, so that no two layers share one

/// Bytes of the rows of one layer's keys (or values), each of row_bytes, rounded up to the alignment.
uint64_t part_bytes(const KvLayerShape& layer, const KvCacheShape& shape, int64_t capacity, uint64_t row_bytes) {
  const uint64_t dims[] = {uint64_t(layer.n_kv_heads), uint64_t(capacity), row_bytes};
  const std::optional<uint64_t> bytes = checked_product(dims);
  if (!bytes || *bytes > uint64_t(INT64_MAX) / 4) {
    fail(Code::Unsupported, "KV cache of {} tokens: its size does not fit 63 bits", shape.max_tokens);
  }
  return (*bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t scale_bytes(DType dtype) {
  return dtype == DType::I8 ? sizeof(float) : 0;
}

/// Where the parts of one layer lie.
struct LayerBytes {
  uint64_t row = 0, rows = 0, scales = 0;
  uint64_t total() const { return 2 * (rows + scales); }
};
LayerBytes layer_bytes(const KvLayerShape& layer, const KvCacheShape& shape, int64_t capacity) {
  const uint64_t row = uint64_t(layer.head_dim) * dtype_bytes(shape.dtype);
  return {.row = row,
          .rows = part_bytes(layer, shape, capacity, row),
          .scales = part_bytes(layer, shape, capacity, scale_bytes(shape.dtype))};
}

}  // namespace

size_t kv_row_bytes(DType dtype, int64_t head_dim) {
  return size_t(head_dim) * dtype_bytes(dtype) + size_t(scale_bytes(dtype));
}

int64_t kv_capacity(const KvLayerShape& layer, const KvCacheShape& shape) {
  LOFT_CHECK(shape.max_tokens > 0 && shape.max_chunk > 0);
  if (layer.window == 0) return shape.max_tokens;
  return std::min(shape.max_tokens, layer.window + shape.max_chunk - 1);
}

size_t kv_cache_bytes(const KvCacheShape& shape) {
  uint64_t total = 0;
  for (const KvLayerShape& layer : shape.layers) {
    const std::optional<uint64_t> sum =
        checked_add(total, layer_bytes(layer, shape, kv_capacity(layer, shape)).total());
    if (!sum || *sum > uint64_t(INT64_MAX)) {
      fail(Code::Unsupported, "KV cache of {} tokens: its size does not fit 63 bits", shape.max_tokens);
    }
    total = *sum;
  }
  return size_t(total);
}

KvCache::KvCache(Backend& backend, const KvCacheShape& shape) : KvCache(backend, shape, shape.max_tokens) {}

KvCache::KvCache(Backend& backend, const KvCacheShape& shape, int64_t n_tokens)
    : backend_(&backend), shape_(shape), layers_(shape.layers.size()) {
  kv_cache_bytes(shape_);  // the sizes of all that may come fit
  for (Layer& layer : layers_) layer.view.dtype = shape_.dtype;
  reserve(n_tokens);
}

void KvCache::reserve(int64_t n) {
  LOFT_CHECK_MSG(n <= shape_.max_tokens, "{} tokens, at most {}", n, shape_.max_tokens);
  if (n <= capacity_) return;
  const int64_t wanted = std::min(std::max(n, 2 * capacity_), shape_.max_tokens);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t capacity = std::min(wanted, kv_capacity(shape_.layers[i], shape_));
    if (capacity > layers_[i].view.capacity) grow(i, capacity);
  }
  capacity_ = wanted;
}

void KvCache::grow(size_t i, int64_t capacity) {
  const KvLayerShape& shape = shape_.layers[i];
  Layer& layer = layers_[i];
  const LayerBytes bytes = layer_bytes(shape, shape_, capacity);
  Layer next{.memory = backend_->allocate(size_t(bytes.total())), .view = layer.view};
  uint8_t* const base = static_cast<uint8_t*>(next.memory.data());
  next.view.k = base;
  next.view.v = base + bytes.rows;
  if (bytes.scales > 0) {
    next.view.k_scales = reinterpret_cast<float*>(base + 2 * bytes.rows);
    next.view.v_scales = reinterpret_cast<float*>(base + 2 * bytes.rows + bytes.scales);
  }
  next.view.capacity = capacity;
  // A ring that can still grow has not wrapped: position p lies in row p.
  const int64_t held = std::min(n_tokens_, layer.view.capacity);
  const auto copy_heads = [&](void* to, const void* from, size_t row) {
    for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
      backend_->copy(static_cast<uint8_t*>(to) + size_t(h * capacity) * row,
                     static_cast<const uint8_t*>(from) + size_t(h * layer.view.capacity) * row, size_t(held) * row);
    }
  };
  if (held > 0) {
    copy_heads(next.view.k, layer.view.k, size_t(bytes.row));
    copy_heads(next.view.v, layer.view.v, size_t(bytes.row));
    if (bytes.scales > 0) {
      copy_heads(next.view.k_scales, layer.view.k_scales, sizeof(float));
      copy_heads(next.view.v_scales, layer.view.v_scales, sizeof(float));
    }
    backend_->synchronize();  // the old memory goes
  }
  layer = std::move(next);
}

bool KvCache::can_truncate(int64_t n) const {
  if (n < 0 || n > n_tokens_) return false;
  if (n == 0) return true;  // the first row sees none before it
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t window = shape_.layers[i].window;
    if (window == 0) continue;
    const int64_t oldest_kept = std::max<int64_t>(0, n_tokens_ - layers_[i].view.capacity);
    const int64_t oldest_seen = std::max<int64_t>(0, n - window + 1);
    if (oldest_seen < oldest_kept) return false;
  }
  return true;
}

void KvCache::truncate(int64_t n) {
  LOFT_CHECK_MSG(can_truncate(n), "{} tokens of {}", n, n_tokens_);
  n_tokens_ = n;
}

}  // namespace loft
