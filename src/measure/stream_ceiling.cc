#include "measure/stream_ceiling.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "backend/cpu/thread_pool.h"
#include "core/error.h"
#include "core/options.h"

namespace loft {
namespace {

constexpr int kReads = 5;
constexpr int64_t kPiece = 256 << 10;  // a thread's straight line; large beside a page, small beside the buffer

/// Eight sums of 64-bit words: a cache line a turn, no chain from one line to the next.
uint64_t read_piece(const uint8_t* data) {
  uint64_t sums[8] = {};
  for (int64_t i = 0; i < kPiece; i += 64) {
    uint64_t line[8];
    std::memcpy(line, data + i, 64);
    for (int j = 0; j < 8; ++j) sums[j] ^= line[j];
  }
  uint64_t all = 0;
  for (const uint64_t s : sums) all ^= s;
  return all;
}

}  // namespace

CeilingChoice parse_ceiling(const std::string& text) {
  constexpr std::string_view kNominal = "nominal:";
  if (text == "off") return {};
  if (text == "measured") return {.is_measured = true};
  CeilingChoice choice;
  if (text.starts_with(kNominal) && Real::parse(text.substr(kNominal.size()), choice.nominal_gbps) &&
      choice.nominal_gbps > 0) {
    return choice;
  }
  fail(Code::BadRequest, "--ceiling: found '{}', wanted measured, off or nominal:GBPS", text);
}

size_t ceiling_buffer_bytes(size_t last_level_cache_bytes) {
  return std::max(size_t(1) << 30, 8 * last_level_cache_bytes);
}

double streaming_read_gbps(int n_threads, size_t bytes) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return 0;
  madvise(map, bytes, MADV_HUGEPAGE);
  auto* const data = static_cast<uint8_t*>(map);
  const int64_t pieces = int64_t(bytes) / kPiece;
  ThreadPool pool(n_threads);
  // Pages that were never written are all one page of zeros.
  pool.parallel_for(pieces, 1, [&](int64_t begin, int64_t end, int) {
    std::memset(data + begin * kPiece, int(begin | 1), size_t((end - begin) * kPiece));
  });
  std::atomic<uint64_t> sum{0};
  double best = 0;
  for (int i = 0; i < kReads; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(pieces, 1, [&](int64_t from, int64_t to, int) {
      uint64_t part = 0;
      for (int64_t p = from; p < to; ++p) part ^= read_piece(data + p * kPiece);
      sum.fetch_xor(part, std::memory_order_relaxed);
    });
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, double(pieces * kPiece) / ns);
  }
  munmap(map, bytes);
  // The buffer is no part of what is measured later: the process's high water of memory begins anew.
  std::ofstream("/proc/self/clear_refs") << '5';
  return best;
}

}  // namespace loft
