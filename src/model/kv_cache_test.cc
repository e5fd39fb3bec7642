#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
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

// Seen to fail without the case of none kept in can_truncate: a place whose ring had wrapped could take no new prompt.
TEST(KvCache, AWrappedRingCanAlwaysBeEmptied) {
  const std::unique_ptr<Backend> backend = open_cpu_backend({});
  const KvLayerShape sliding{.n_kv_heads = 1, .head_dim = 8, .window = 4};
  KvCache cache(*backend, {.layers = {sliding}, .dtype = DType::F32, .max_tokens = 64, .max_chunk = 1});
  cache.advance(30);
  EXPECT_FALSE(cache.can_truncate(20));
  EXPECT_TRUE(cache.can_truncate(0));
  cache.truncate(0);
  EXPECT_EQ(cache.n_tokens(), 0);
}

}  // namespace
}  // namespace loft
