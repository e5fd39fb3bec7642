// model: keys and values of one sequence, all layers. Full layers hold up to max_tokens rows; sliding layers hold a
// ring of window + chunk - 1 rows, so that every position that a chunk of rows can see is still there. Memory is taken
// for the positions asked for and grows between passes: a short answer under a long context touches little.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace loft {

/// What one layer needs: kv heads, head dim, and its window (0: full).
struct KvLayerShape {
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
};

struct KvCacheShape {
  std::vector<KvLayerShape> layers;
  DType dtype = DType::F16;
  int64_t max_tokens = 0;  // context of one sequence
  int64_t max_chunk = 1;   // most rows of one sequence in one forward pass
};

/// Bytes of the keys (or the values) of one head at one position, its scale with them.
size_t kv_row_bytes(DType dtype, int64_t head_dim);

/// Positions that a layer keeps when the cache holds max_tokens.
int64_t kv_capacity(const KvLayerShape& layer, const KvCacheShape& shape);

/// Bytes of one sequence's cache. Error: Unsupported when the size does not fit 63 bits.
size_t kv_cache_bytes(const KvCacheShape& shape);

class KvCache {
 public:
  /// With memory for all of shape.max_tokens.
  KvCache(Backend& backend, const KvCacheShape& shape);
  /// With memory for the first n_tokens.
  KvCache(Backend& backend, const KvCacheShape& shape, int64_t n_tokens);
  KvView layer(int i) const { return layers_[size_t(i)].view; }
  int n_layers() const { return int(layers_.size()); }
  int64_t n_tokens() const { return n_tokens_; }
  int64_t capacity() const { return capacity_; }  ///< tokens that there is memory for
  int64_t max_chunk() const { return shape_.max_chunk; }
  /// Makes room for n tokens, at most max_tokens: to at least twice the room so far, and what is held is copied. One
  /// layer after the other, so that only one is there twice. Error: OutOfMemory; what is held stays whole.
  void reserve(int64_t n);
  void advance(int64_t n) { n_tokens_ += n; }
  void clear() { n_tokens_ = 0; }
  /// True when the first n tokens can be kept and the rest forgotten: no ring has lost a position that row n would see.
  bool can_truncate(int64_t n) const;
  void truncate(int64_t n);

 private:
  struct Layer {
    Buffer memory;
    KvView view;
  };
  void grow(size_t i, int64_t capacity);

  Backend* backend_;
  KvCacheShape shape_;
  std::vector<Layer> layers_;
  int64_t n_tokens_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace loft
