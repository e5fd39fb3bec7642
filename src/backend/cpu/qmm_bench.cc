// backend/cpu: GF/s and GB/s of each row of the table that this machine runs, over shapes and m, beside a plain read of
// the same buffers. Copies of the weight rotate through 128 MB, so that no cache holds them. A name reads
// row/shape/m:rows/threads:count; run with --benchmark_filter and several repetitions, and divide only within one run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/cpu_memory.h"
#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_panel16.h"
#include "backend/cpu/qmm_test_data.h"

namespace loft {
namespace {

struct Shape {
  QuantFormat format;
  int64_t n, k;
};
constexpr Shape kShapes[] = {
    {{QuantKind::Affine, 4, 64}, 4096, 4096}, {{QuantKind::Affine, 4, 32}, 576, 576},   // SmolLM2-135M: q, o
    {{QuantKind::Affine, 4, 32}, 1536, 576},  {{QuantKind::Affine, 4, 32}, 576, 1536},  // its gate and up; down
    {{QuantKind::Affine, 8, 32}, 49152, 576},                                           // its embedding and head
    {{QuantKind::Affine, 8, 64}, 4096, 4096}, {{QuantKind::Affine, 3, 64}, 4096, 4096},
    {{QuantKind::Mxfp4, 4, 32}, 4096, 4096},  {{QuantKind::Mxfp8, 8, 32}, 4096, 4096},
    {{QuantKind::Nvfp4, 4, 16}, 4096, 4096},  {{QuantKind::Dense, 16, 0}, 4096, 4096},
};
constexpr size_t kRotatingBytes = 128 << 20;

std::string shape_name(const Shape& s) {
  return fmt::format("{}_{}x{}", format_name(s.format), s.n, s.k);
}

/// Copies of one weight, each in memory of its own.
struct Copies {
  testing::TestWeight first;
  std::vector<uint8_t> memory;
  std::vector<QuantWeight> views;
  size_t stride = 0;
};
Copies make_copies(const Shape& shape) {
  Copies c{.first = testing::make_test_weight({.format = shape.format, .n = shape.n, .k = shape.k}),
           .memory = {},
           .views = {}};
  c.stride = weight_bytes(c.first.view) + 64;
  const size_t count = std::max<size_t>(1, kRotatingBytes / c.stride);
  c.memory.resize(c.stride * count);
  for (size_t i = 0; i < count; ++i) {
    uint8_t* at = c.memory.data() + i * c.stride;
    const auto put = [&](const testing::GuardedBytes& bytes) -> const void* {
      if (bytes.size() == 0) return nullptr;
      std::memcpy(at, bytes.data(), bytes.size());
      at += bytes.size();
      return at - bytes.size();
    };
    QuantWeight w = c.first.view;
    w.words = put(c.first.words);
    w.scales = put(c.first.scales);
    w.biases = put(c.first.biases);
    c.views.push_back(w);
  }
  return c;
}

void bench_row(benchmark::State& state, const QmmKernel& row, const Shape& shape, int64_t m, int n_threads) {
  const Copies copies = make_copies(shape);
  const DeviceInfo device = {.kind = DeviceKind::Cpu, .name = "host", .isa = detect_isa(), .n_threads = n_threads};
  std::vector<float> x = testing::make_test_x(m, shape.k, DType::F32, 1);
  std::vector<float> y(size_t(m * shape.n));
  ThreadPool pool(n_threads);
  const bool is_packed = row.layout == Layout::Panel16;
  const size_t packed_bytes = is_packed ? panel16_bytes(copies.views[0]) : 0;
  MemoryPressure pressure;
  CpuHeap heap({}, pressure);  // as a model's packed weights: large pages
  const Buffer packed = heap.allocate(packed_bytes * copies.views.size());
  uint8_t* const packed_at = static_cast<uint8_t*>(packed.data());
  for (size_t i = 0; is_packed && i < copies.views.size(); ++i) {
    pack_panel16(pool, copies.views[i], packed_at + i * packed_bytes);
  }
  std::vector<uint8_t> workspace(row.workspace_bytes(testing::test_spec(copies.views[0], DType::F32), m, device) + 64);
  uint8_t* const aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  CpuPanels panels{.bytes = device.panel_bytes};
  panels.kernels = &row_kernels(device.isa);
  size_t turn = 0;
  for (auto _ : state) {
    const size_t i = turn++ % copies.views.size();
    const QmmPart part{.kernel = &row,
                       .weight = &copies.views[i],
                       .packed = is_packed ? packed_at + i * packed_bytes : nullptr,
                       .y = make_tensor(y.data(), DType::F32, {m, shape.n})};
    cpu_run_qmm(pool, panels,
                {.x = make_tensor(x.data(), DType::F32, {m, shape.k}),
                 .parts = std::span(&part, 1),
                 .workspace = aligned,
                 .workspace_bytes = workspace.size() - 64});
  }
  const double runs = double(state.iterations());
  state.counters["GF/s"] = benchmark::Counter(2e-9 * double(m * shape.n * shape.k) * runs, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(1e-9 * double(copies.stride - 64) * runs, benchmark::Counter::kIsRate);
}

/// Eight sums of 64-bit words: four cache lines under way, one straight line a chunk.
uint64_t read_all(const uint8_t* data, int64_t bytes) {
  uint64_t sums[8] = {};
  for (int64_t i = 0; i + 64 <= bytes; i += 64) {
    uint64_t line[8];
    std::memcpy(line, data + i, 64);
    for (int j = 0; j < 8; ++j) sums[j] ^= line[j];
  }
  return std::accumulate(sums, sums + 8, uint64_t{0});
}

void bench_read(benchmark::State& state, const Shape& shape, int n_threads) {
  const Copies copies = make_copies(shape);
  ThreadPool pool(n_threads);
  constexpr int64_t kPiece = 64 << 10;
  const int64_t pieces = int64_t(copies.memory.size()) / kPiece;
  for (auto _ : state) {
    pool.parallel_for(pieces, 8, [&](int64_t begin, int64_t end, int) {
      benchmark::DoNotOptimize(read_all(copies.memory.data() + begin * kPiece, (end - begin) * kPiece));
    });
  }
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * double(pieces * kPiece) * double(state.iterations()), benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  const DeviceInfo device = {.kind = DeviceKind::Cpu, .name = "host", .isa = detect_isa(), .n_threads = 1};
  const QmmPolicy all_rows = {.forced_kernel = "", .activations = QmmActivations::A8, .repack = QmmRepack::On};
  for (const Shape& shape : kShapes) {
    for (int threads : {1, 2}) {
      benchmark::RegisterBenchmark(fmt::format("read/{}/threads:{}", shape_name(shape), threads).c_str(), bench_read,
                                   shape, threads)
          ->UseRealTime();
      for (const QmmKernel& row : cpu_qmm_table()) {
        const QmmSpec spec = {.format = shape.format,
                              .scale_dtype = DType::F16,
                              .has_biases = shape.format.kind == QuantKind::Affine,
                              .n = shape.n,
                              .k = shape.k};
        if (!row.entry || row.reject(spec, device, all_rows)) continue;
        const MRange range = row.m_range(spec, device, all_rows);
        for (int64_t m : {1, 2, 4, 8, 16, 32, 64, 128, 512}) {
          if (m < range.lo || m > range.hi) continue;
          benchmark::RegisterBenchmark(
              fmt::format("{}/{}/m:{}/threads:{}", row.name, shape_name(shape), m, threads).c_str(), bench_row, row,
              shape, m, threads)
              ->UseRealTime();
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace loft
