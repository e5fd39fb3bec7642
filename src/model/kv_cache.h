// model: keys and values of one sequence, all layers. Full layers hold max_tokens rows; sliding layers hold a ring of
// window + chunk - 1 rows, so that every position that a chunk of rows can see is still there.
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

/// Positions that a layer keeps.
int64_t kv_capacity(const KvLayerShape& layer, const KvCacheShape& shape);

/// Bytes of one sequence's cache. Error: Unsupported when the size does not fit 63 bits.
size_t kv_cache_bytes(const KvCacheShape& shape);

class KvCache {
 public:
  KvCache(Backend& backend, const KvCacheShape& shape);
  KvView layer(int i) const { return views_[size_t(i)]; }
  int n_layers() const { return int(views_.size()); }
  int64_t n_tokens() const { return n_tokens_; }
  int64_t max_tokens() const { return max_tokens_; }
  int64_t max_chunk() const { return max_chunk_; }
  void advance(int64_t n) { n_tokens_ += n; }
  void clear() { n_tokens_ = 0; }
  /// True when the first n tokens can be kept and the rest forgotten: no ring has lost a position that row n would see.
  bool can_truncate(int64_t n) const;
  void truncate(int64_t n);

 private:
  Buffer memory_;
  std::vector<KvView> views_;
  std::vector<int64_t> windows_;
  int64_t n_tokens_ = 0;
  int64_t max_tokens_ = 0;
  int64_t max_chunk_ = 1;
};

}  // namespace loft
