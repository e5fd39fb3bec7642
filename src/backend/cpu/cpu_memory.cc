// backend/cpu: accounts count the bytes asked for, so that active is the sum of all living buffers.
#include "backend/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/cpu_info.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t(2) << 20;

}  // namespace

void CpuHeap::add(size_t bytes) {
  const size_t before = active_.fetch_add(bytes);
  if (limit_ && (bytes > limit_ || before > limit_ - bytes)) {
    active_.fetch_sub(bytes);
    fail(Code::OutOfMemory, "memory limit: need {} bytes, have {} of {}", bytes, limit_ > before ? limit_ - before : 0,
         limit_);
  }
  size_t peak = peak_.load();
  while (peak < before + bytes && !peak_.compare_exchange_weak(peak, before + bytes)) {
  }
}

Buffer CpuHeap::allocate(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  // Sizes near the top of the address space would wrap when rounded up.
  const bool is_possible = bytes < SIZE_MAX / 2;
  void* data = nullptr;
  if (is_possible) {
    add(bytes);
    data = std::aligned_alloc(alignment, std::max(kLine, (bytes + alignment - 1) / alignment * alignment));
    if (!data) active_.fetch_sub(bytes);
  }
  if (!data) {
    fail(Code::OutOfMemory, "memory of the CPU: need {} bytes, have {}", bytes, usable_memory(read_text_of_system()));
  }
  // Page walks of 4 KiB pages cost a tenth to a quarter of the read speed of weights.
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return Buffer(data, bytes, release, this);
}

void CpuHeap::release(void* heap, void* data, size_t bytes) {
  std::free(data);
  static_cast<CpuHeap*>(heap)->active_.fetch_sub(bytes);
}

MemoryStats CpuHeap::stats() const {
  return {.active_bytes = active_.load(), .peak_bytes = peak_.load()};
}

void CpuHeap::reset_peak() {
  peak_.store(active_.load());
}

}  // namespace loft
