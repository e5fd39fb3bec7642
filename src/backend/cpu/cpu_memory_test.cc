// backend/cpu: the arena: what it keeps, what it gives back, and when it refuses.
#include "backend/cpu/cpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/error.h"

namespace loft {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

TEST(CpuHeap, AFreedBlockServesTheNextRequestOfItsSize) {
  MemoryPressure pressure;
  CpuHeap heap({.cache = 64 * kMiB}, pressure);
  void* first = nullptr;
  {
    const Buffer a = heap.allocate(3 * kMiB);
    first = a.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * kMiB), 0u);
    EXPECT_EQ(heap.stats().active_bytes, 3 * kMiB);
  }
  EXPECT_EQ(heap.stats().active_bytes, 0u);
  EXPECT_EQ(heap.stats().cache_bytes, 3 * kMiB);
  const Buffer other = heap.allocate(2 * kMiB);
  EXPECT_EQ(heap.stats().cache_bytes, 3 * kMiB) << "another size leaves it";
  const Buffer again = heap.allocate(3 * kMiB);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(heap.stats().cache_bytes, 0u);
  EXPECT_EQ(heap.stats().active_bytes, 5 * kMiB);
}

/// Seen to fail with the call of trim_cache left out of keep().
TEST(CpuHeap, TheCacheHoldsItsLimitAndDropsTheOldest) {
  MemoryPressure pressure;
  CpuHeap heap({.cache = 5 * kMiB}, pressure);
  for (const size_t size : {2 * kMiB, 3 * kMiB, 1 * kMiB, 6 * kMiB, size_t(4096)}) heap.allocate(size);
  EXPECT_EQ(heap.stats().cache_bytes, 4 * kMiB) << "3 and 1: the 2 went, 6 exceeds the limit, 4 KiB is malloc's";
  heap.free_cached();
  EXPECT_EQ(heap.stats().cache_bytes, 0u);
  CpuHeap without({}, pressure);
  without.allocate(2 * kMiB);
  EXPECT_EQ(without.stats().cache_bytes, 0u);
}

TEST(CpuHeap, ThePeakIsTheHighWaterSinceItsReset) {
  MemoryPressure pressure;
  CpuHeap heap({.cache = 64 * kMiB}, pressure);
  const Buffer held = heap.allocate(kMiB);
  heap.allocate(4 * kMiB);
  EXPECT_EQ(heap.stats().peak_bytes, 5 * kMiB);
  heap.reset_peak();
  EXPECT_EQ(heap.stats().peak_bytes, kMiB);
  heap.allocate(4 * kMiB);
  EXPECT_EQ(heap.stats().peak_bytes, 5 * kMiB) << "a block of the cache counts as any other";
}

/// First its own cache goes, then what the hooks can free; only then it refuses.
/// Seen to fail with free_cached, and with relieve, left out of allocate.
TEST(CpuHeap, PressureTakesTheCacheThenTheHooksThenRefuses) {
  MemoryPressure pressure;
  CpuHeap heap({.memory = 8 * kMiB, .cache = 64 * kMiB}, pressure);
  Buffer for_speed = heap.allocate(3 * kMiB);
  int n_called = 0;
  pressure.add(&n_called, [&] {
    ++n_called;
    for_speed = {};
  });
  heap.allocate(2 * kMiB);
  EXPECT_EQ(heap.stats().cache_bytes, 2 * kMiB);
  const Buffer second = heap.allocate(4 * kMiB);
  EXPECT_EQ(n_called, 0) << "the cache was enough";
  EXPECT_EQ(heap.stats().cache_bytes, 0u);
  const Buffer third = heap.allocate(3 * kMiB + 1);
  EXPECT_EQ(n_called, 1);
  EXPECT_EQ(heap.stats().active_bytes, 7 * kMiB + 1);
  try {
    heap.allocate(2 * kMiB);
    ADD_FAILURE() << "the limit was ignored";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::OutOfMemory);
    EXPECT_THAT(e.what(), testing::HasSubstr("need 2097152 bytes, have 1048575 of 8388608"));
  }
  EXPECT_EQ(n_called, 2) << "asked once more before the refusal";
  pressure.remove(&n_called);
  EXPECT_THROW(heap.allocate(2 * kMiB), Error);
  EXPECT_EQ(n_called, 2);
}

TEST(CpuHeap, MappedWeightsAreCountedApartAndUnderTheLimit) {
  MemoryPressure pressure;
  CpuHeap heap({.memory = 8 * kMiB}, pressure);
  const std::vector<uint8_t> file(64, 7);
  {
    const Buffer weights = heap.adopt_mapped(file.data(), 6 * kMiB);
    EXPECT_EQ(weights.data(), file.data());
    EXPECT_EQ(heap.stats().file_bytes, 6 * kMiB);
    EXPECT_EQ(heap.stats().active_bytes, 0u);
    EXPECT_THROW(heap.allocate(2 * kMiB + 1), Error);
    heap.allocate(2 * kMiB);
  }
  EXPECT_EQ(heap.stats().file_bytes, 0u);
  EXPECT_EQ(heap.stats().peak_bytes, 2 * kMiB);
}

TEST(CpuHeap, ThreadsLeaveTheAccountsRight) {
  MemoryPressure pressure;
  CpuHeap heap({.memory = 40 * kMiB, .cache = 4 * kMiB}, pressure);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&heap, t] {
      for (int i = 0; i < 50; ++i) {
        const Buffer a = heap.allocate(kMiB * size_t(1 + (t + i) % 3));
        std::memset(a.data(), t, 4096);
        const Buffer b = heap.allocate(100);
        std::memset(b.data(), t, 100);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(heap.stats().active_bytes, 0u);
  EXPECT_LE(heap.stats().cache_bytes, 4 * kMiB);
  EXPECT_LE(heap.stats().peak_bytes, 24 * kMiB + 800);
}

}  // namespace
}  // namespace loft
