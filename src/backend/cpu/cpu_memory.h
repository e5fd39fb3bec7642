// backend/cpu: memory of the CPU backend: aligned blocks, large pages for large ones, and the accounts of them: what is
// handed out (active), its high water (peak), what was freed and is kept for reuse (cache), and mapped weights.
#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <mutex>

#include "backend/backend.h"
#include "backend/memory_pressure.h"
#include "core/buffer.h"

namespace loft {

struct CpuHeapLimits {
  size_t memory = 0;  // most bytes of active, cache and mapped weights together; 0: none
  size_t cache = 0;   // most bytes of freed blocks kept for reuse; 0: none are kept
};

/// Thread-safe. Buffers may die on any thread; the heap outlives them.
class CpuHeap {
 public:
  CpuHeap(const CpuHeapLimits& limits, MemoryPressure& pressure) : limits_(limits), pressure_(pressure) {}
  CpuHeap(const CpuHeap&) = delete;
  CpuHeap& operator=(const CpuHeap&) = delete;
  ~CpuHeap() { free_cached(); }

  /// Aligned to 64 bytes (2 MiB from 2 MiB on), not initialised. What would not fit first costs the cache, then all
  /// that MemoryPressure can free. Errors: OutOfMemory with need and have.
  Buffer allocate(size_t bytes);
  /// Memory that a file backs, counted apart while the buffer lives. Never freed here.
  Buffer adopt_mapped(const void* data, size_t bytes);
  /// Adopted memory that is not needed any more: its pages go back to the system and it leaves the account of files.
  /// It can still be read, from the file. Nothing happens for other memory.
  void drop_mapped(const void* data);
  /// Gives the kept blocks back to the system.
  void free_cached();
  MemoryStats stats() const;
  uint64_t n_allocations() const;
  uint64_t allocated_bytes() const;  ///< of all of them, freed ones too
  void reset_peak();

 private:
  struct Block {
    void* data;
    size_t bytes;
  };
  void* try_allocate(size_t bytes);
  void* take_cached(size_t bytes);
  void keep(const Block& block);
  void trim_cache(size_t most_bytes);
  size_t used() const { return stats_.active_bytes + stats_.cache_bytes + stats_.file_bytes; }
  [[noreturn]] void refuse(size_t bytes) const;
  static void release(void* heap, void* data, size_t bytes);
  static void forget_mapped(void* heap, void* data, size_t bytes);

  CpuHeapLimits limits_;
  MemoryPressure& pressure_;
  mutable std::mutex mutex_;
  MemoryStats stats_;
  uint64_t n_allocations_ = 0, allocated_bytes_ = 0;
  std::list<Block> cached_;  // freed last first
  struct Mapped {
    size_t bytes;
    bool is_dropped;
  };
  std::multimap<const void*, Mapped> mapped_;  // adopted memory by address
};

}  // namespace loft
