// backend/cpu: the worker threads. One word says which job is open and how many workers are inside it, so the caller
// waits only for workers that joined: one that the system has not scheduled yet costs nothing (2x oversubscription).
#include "backend/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace loft {
namespace {

using Clock = std::chrono::steady_clock;

// A job follows the last one within a few microseconds in a forward pass; sleeping costs ~50 us to wake.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kYield = std::chrono::microseconds(200);
constexpr int kPausesPerLook = 16;

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins, then yields, until ready(); false when both took too long and the caller should sleep.
template <class Ready>
bool wait_awake(Ready ready) {
  if (ready()) return true;
  const auto start = Clock::now();
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      cpu_pause();
      if (ready()) return true;
    }
    if (Clock::now() - start > kSpin) break;
  }
  while (Clock::now() - start < kYield) {
    sched_yield();
    if (ready()) return true;
  }
  return false;
}

// The word: workers inside (bits 0..15), is the job open (bit 16), number of the job (bits 32..63).
constexpr uint64_t kInside = 0xffff;
constexpr uint64_t kOpen = 1u << 16;
constexpr uint32_t job_of(uint64_t word) {
  return uint32_t(word >> 32);
}

}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<uint64_t> word{0};
  alignas(64) std::atomic<int64_t> next{0};
  // What sleepers wait for: the job's number for workers, a changed number for the caller.
  alignas(64) std::atomic<uint32_t> wake{0};
  std::atomic<uint32_t> left{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  // The open job; written before the word says that it is open.
  int64_t n = 0;
  int64_t grain = 1;
  uint64_t n_loops = 0;  // the caller's alone
  const FunctionRef<void(int64_t, int64_t, int)>* body = nullptr;
  std::vector<std::thread> workers;

  void run_chunks(int thread) {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      (*body)(begin, std::min(n, begin + grain), thread);
    }
  }

  bool join(uint32_t& seen) {
    uint64_t w = word.load(std::memory_order_acquire);
    for (;;) {
      if (job_of(w) == seen) return false;
      if (!(w & kOpen)) {
        seen = job_of(w);
        return false;
      }
      if (word.compare_exchange_weak(w, w + 1, std::memory_order_acq_rel)) {
        seen = job_of(w);
        return true;
      }
    }
  }

  void leave() {
    const uint64_t before = word.fetch_sub(1, std::memory_order_seq_cst);
    if ((before & kInside) == 1 && !(before & kOpen) && caller_sleeps.load(std::memory_order_seq_cst)) {
      left.fetch_add(1, std::memory_order_seq_cst);
      left.notify_one();
    }
  }

  void work(int thread) {
    uint32_t seen = 0;
    for (;;) {
      if (join(seen)) {
        run_chunks(thread);
        leave();
        continue;
      }
      const auto ready = [&] {
        return job_of(word.load(std::memory_order_acquire)) != seen || stop.load(std::memory_order_acquire);
      };
      if (!wait_awake(ready)) wake.wait(seen, std::memory_order_seq_cst);
      if (stop.load(std::memory_order_acquire)) return;
    }
  }

  void wait_for_workers() {
    const auto ready = [&] { return (word.load(std::memory_order_seq_cst) & kInside) == 0; };
    if (wait_awake(ready)) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t count = left.load(std::memory_order_seq_cst);
      if (ready()) break;
      left.wait(count, std::memory_order_seq_cst);
    }
    caller_sleeps.store(false, std::memory_order_seq_cst);
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  for (int i = 1; i < n_threads; ++i) {
    state_->workers.emplace_back([s = state_.get(), i] { s->work(i); });
  }
}

ThreadPool::~ThreadPool() {
  State& s = *state_;
  s.stop.store(true, std::memory_order_seq_cst);
  s.wake.fetch_add(1, std::memory_order_seq_cst);
  s.wake.notify_all();
  for (std::thread& t : s.workers) t.join();
}

int ThreadPool::size() const {
  return int(state_->workers.size()) + 1;
}

uint64_t ThreadPool::n_loops() const {
  return state_->n_loops;
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
  if (n <= 0) return;
  State& s = *state_;
  grain = std::max<int64_t>(grain, 1);
  if (s.workers.empty() || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(n, begin + grain), 0);
    return;
  }
  ++s.n_loops;
  s.n = n;
  s.grain = grain;
  s.body = &body;
  s.next.store(0, std::memory_order_relaxed);
  const uint32_t job = job_of(s.word.load(std::memory_order_relaxed)) + 1;
  s.word.store(uint64_t(job) << 32 | kOpen, std::memory_order_seq_cst);
  s.wake.store(job, std::memory_order_seq_cst);
  s.wake.notify_all();
  s.run_chunks(0);
  s.word.fetch_and(~kOpen, std::memory_order_seq_cst);
  s.wait_for_workers();
}

}  // namespace loft
