// backend/cpu: memory of the CPU backend: aligned blocks, large pages for large ones, and the accounts of them.
#pragma once
#include <atomic>
#include <cstddef>

#include "backend/backend.h"
#include "core/buffer.h"

namespace loft {

/// Buffers may die on any thread; the heap outlives them.
class CpuHeap {
 public:
  /// limit: most bytes handed out at a time; 0: none.
  explicit CpuHeap(size_t limit) : limit_(limit) {}
  CpuHeap(const CpuHeap&) = delete;
  CpuHeap& operator=(const CpuHeap&) = delete;

  /// Aligned to 64 bytes (2 MiB from 2 MiB on), not initialised. Errors: OutOfMemory with need and have.
  Buffer allocate(size_t bytes);
  MemoryStats stats() const;
  void reset_peak();

 private:
  void add(size_t bytes);
  static void release(void* heap, void* data, size_t bytes);

  size_t limit_;
  std::atomic<size_t> active_{0};
  std::atomic<size_t> peak_{0};
};

}  // namespace loft
