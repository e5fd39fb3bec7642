// backend/cpu: accounts count the bytes asked for, so that active is the sum of all living buffers. A kept block serves
// a request of its own size only: what asks again and again (temporaries, dense weights) asks for the same sizes.
#include "backend/cpu/cpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "backend/cpu/cpu_info.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kLeastCached = size_t(1) << 20;  // malloc reuses smaller blocks by itself, without a page fault

void* system_allocate(size_t bytes) {
  // Whole cache lines: vectors may touch the rest of the last one.
  const size_t whole_lines = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
  void* data = nullptr;
  if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kLine, whole_lines) != 0) return nullptr;
  // Page walks of 4 KiB pages cost a tenth to a quarter of the read speed of weights. Whole large pages only: the tail
  // of a block takes no more than it needs.
  if (bytes >= kHugePage) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

/// Gives back the whole pages of a range that a file backs.
void drop_pages(const void* data, size_t bytes) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

void* CpuHeap::take_cached(size_t bytes) {
  const auto found = std::find_if(cached_.begin(), cached_.end(), [&](const Block& b) { return b.bytes == bytes; });
  if (found == cached_.end()) return nullptr;
  void* const data = found->data;
  cached_.erase(found);
  stats_.cache_bytes -= bytes;
  return data;
}

void* CpuHeap::try_allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  void* data = take_cached(bytes);
  if (!data) {
    if (limits_.memory && (bytes > limits_.memory || used() > limits_.memory - bytes)) return nullptr;
    data = system_allocate(bytes);
  }
  if (!data) return nullptr;
  ++n_allocations_;
  allocated_bytes_ += bytes;
  stats_.active_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.active_bytes);
  return data;
}

Buffer CpuHeap::allocate(size_t bytes) {
  // Sizes near the top of the address space would wrap when rounded up.
  const bool is_possible = bytes < SIZE_MAX / 2;
  void* data = is_possible ? try_allocate(bytes) : nullptr;
  if (!data && is_possible) {
    free_cached();
    data = try_allocate(bytes);
  }
  if (!data && is_possible) {
    pressure_.relieve();
    free_cached();
    data = try_allocate(bytes);
  }
  if (!data) refuse(bytes);
  return Buffer(data, bytes, release, this);
}

void CpuHeap::refuse(size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const size_t limit = limits_.memory;
  if (limit && (bytes > limit || used() > limit - bytes)) {
    fail(Code::OutOfMemory, "memory limit: need {} bytes, have {} of {}", bytes, limit > used() ? limit - used() : 0,
         limit);
  }
  fail(Code::OutOfMemory, "memory of the CPU: need {} bytes, have {}", bytes, usable_memory(read_text_of_system()));
}

void CpuHeap::release(void* heap, void* data, size_t bytes) {
  CpuHeap& self = *static_cast<CpuHeap*>(heap);
  const std::lock_guard lock(self.mutex_);
  self.stats_.active_bytes -= bytes;
  self.keep({data, bytes});
}

void CpuHeap::keep(const Block& block) {
  if (block.bytes < kLeastCached || block.bytes > limits_.cache) {
    std::free(block.data);
    return;
  }
  trim_cache(limits_.cache - block.bytes);
  cached_.push_front(block);
  stats_.cache_bytes += block.bytes;
}

void CpuHeap::trim_cache(size_t most_bytes) {
  while (stats_.cache_bytes > most_bytes) {
    std::free(cached_.back().data);
    stats_.cache_bytes -= cached_.back().bytes;
    cached_.pop_back();
  }
}

void CpuHeap::free_cached() {
  const std::lock_guard lock(mutex_);
  trim_cache(0);
}

Buffer CpuHeap::adopt_mapped(const void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.file_bytes += bytes;
  mapped_.insert({data, {bytes, false}});
  return Buffer(const_cast<void*>(data), bytes, forget_mapped, this);
}

void CpuHeap::forget_mapped(void* heap, void* data, size_t) {
  CpuHeap& self = *static_cast<CpuHeap*>(heap);
  const std::lock_guard lock(self.mutex_);
  const auto found = self.mapped_.find(data);
  if (!found->second.is_dropped) self.stats_.file_bytes -= found->second.bytes;
  self.mapped_.erase(found);
}

void CpuHeap::drop_mapped(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = mapped_.find(data);
  if (found == mapped_.end() || found->second.is_dropped) return;
  found->second.is_dropped = true;
  stats_.file_bytes -= found->second.bytes;
  // The kernel maps pages around the one that is read, so reading this range has brought back ends of its neighbours.
  const auto first = found == mapped_.begin() ? found : std::prev(found);
  auto end = std::next(found);
  if (end != mapped_.end()) ++end;
  for (auto i = first; i != end; ++i) {
    if (i->second.is_dropped) drop_pages(i->first, i->second.bytes);
  }
}

MemoryStats CpuHeap::stats() const {
  const std::lock_guard lock(mutex_);
  MemoryStats out = stats_;
  out.limit_bytes = limits_.memory;
  return out;
}

uint64_t CpuHeap::n_allocations() const {
  const std::lock_guard lock(mutex_);
  return n_allocations_;
}

uint64_t CpuHeap::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

void CpuHeap::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.active_bytes;
}

}  // namespace loft
