// backend/cpu: the worker threads of a CPU backend. Kernels stay single-threaded; all parallel loops go through here.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace loft {

/// A reference to a callable, no allocation: valid only while the callable lives.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit on purpose, as a lambda is passed
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) -> R { return (*static_cast<std::decay_t<F>*>(object))(args...); }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Fixed workers; the calling thread is one of them. One parallel_for at a time. Idle workers spin ~20 us, yield, then
/// sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  /// Loops that were given to the workers, not run by the caller alone.
  uint64_t n_loops() const;
  /// Calls body(begin, end, thread) over disjoint chunks that cover [0, n), each of `grain` items (the last may be
  /// shorter), taken from one counter by whoever is free. Returns when all are done. thread is in [0, size()).
  /// With one thread, or one chunk, body runs in the caller. body must not throw.
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end, int thread)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace loft
