#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace loft {
namespace {

KvCacheShape shape_of(int64_t max_tokens, int64_t max_chunk) {
  return {.layers = {{.n_kv_heads = 2, .head_dim = 4, .window = 0}, {.n_kv_heads = 2, .head_dim = 4, .window = 16}},
          .dtype = DType::F16,
          .max_tokens = max_tokens,
          .max_chunk = max_chunk};
}

TEST(KvCache, ASlidingLayerKeepsItsWindowAndAChunk) {
  const KvCacheShape shape = shape_of(1024, 8);
  EXPECT_EQ(kv_capacity(shape.layers[0], shape), 1024);
  EXPECT_EQ(kv_capacity(shape.layers[1], shape), 16 + 8 - 1);
  // Keys and values of 2 heads of 4 f16 values: 16 bytes a position each, rounded up to 64.
  EXPECT_EQ(kv_cache_bytes(shape), size_t(2 * 1024 * 16 + 2 * 384));
}

TEST(KvCache, ASlidingLayerNeverKeepsMoreThanTheContext) {
  const KvCacheShape shape = shape_of(10, 8);
  EXPECT_EQ(kv_capacity(shape.layers[1], shape), 10);
}

TEST(KvCache, ASizeBeyondMemoryAddressesIsAnError) {
  KvCacheShape shape = shape_of(int64_t(1) << 60, 8);
  EXPECT_THROW(kv_cache_bytes(shape), Error);
  shape.max_tokens = int64_t(1) << 57;
  shape.layers.resize(8, shape.layers[0]);
  EXPECT_THROW(kv_cache_bytes(shape), Error);
}

}  // namespace
}  // namespace loft
