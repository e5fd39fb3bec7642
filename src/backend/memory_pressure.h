// backend: what to give back when memory runs out. Whoever keeps memory for speed alone leaves a hook here; a backend
// calls them all before it refuses an allocation.
#pragma once
#include <functional>
#include <list>
#include <mutex>

namespace loft {

/// Thread-safe. Hooks run one after the other while the list is locked: they free memory, allocate none, and neither
/// add nor remove hooks.
class MemoryPressure {
 public:
  /// `free_memory` is called until remove(owner).
  void add(const void* owner, std::function<void()> free_memory) {
    const std::lock_guard lock(mutex_);
    hooks_.push_back({owner, std::move(free_memory)});
  }
  void remove(const void* owner) {
    const std::lock_guard lock(mutex_);
    hooks_.remove_if([&](const Hook& hook) { return hook.owner == owner; });
  }
  void relieve() {
    const std::lock_guard lock(mutex_);
    for (const Hook& hook : hooks_) hook.free_memory();
  }

 private:
  struct Hook {
    const void* owner;
    std::function<void()> free_memory;
  };
  std::mutex mutex_;
  std::list<Hook> hooks_;
};

}  // namespace loft
