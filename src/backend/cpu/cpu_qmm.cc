// backend/cpu: the parallel loop of the quantized product. Parts whose rows want the activations in the same form share
// one preparation and one loop over all their outputs, so q/k/v or gate/up cost one barrier.
#include "backend/cpu/cpu_qmm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cpu/qmm_rows.h"

namespace loft {
namespace {

constexpr size_t kMaxParts = 8;
constexpr int64_t kChunksAThread = 16;
constexpr int64_t kChunkBytes = 512 << 10;    // smaller chunks of a large matrix read 10 % slower (Zen 4, 36 KiB)
constexpr int64_t kLeastUnit = 16;            // outputs: a cache line of f32
constexpr int64_t kParallelElements = 16384;  // below this a preparation of x is cheaper than waking the pool

const CpuQmmEntry& entry_of(const QmmPart& part) {
  LOFT_CHECK(part.kernel && part.kernel->entry);
  return *static_cast<const CpuQmmEntry*>(part.kernel->entry);
}

ActivationKey key_of(const QmmPart& part) {
  return entry_of(part).key(part.weight->format);
}

/// Lays out the prepared activations at the start of the workspace; the scratch of the threads follows.
PreparedActivations place_activations(const Tensor& x, const ActivationKey& key, uint8_t* workspace) {
  PreparedActivations out{.key = key, .m = x.dim(0), .k = x.dim(1)};
  if (key.form == ActivationForm::F32) {
    out.f32 = x.dtype == DType::F32 ? x.as<float>() : reinterpret_cast<float*>(workspace);
    return out;
  }
  out.groups = out.k / key.group;
  const size_t code_bytes = activation_code_bytes(key, out.m, out.k);
  out.codes = reinterpret_cast<int8_t*>(workspace);
  out.d = reinterpret_cast<float*>(workspace + code_bytes);
  out.s = reinterpret_cast<float*>(workspace + code_bytes + align64(size_t(out.m * (out.k / key.group)) * 4));
  return out;
}

void prepare(ThreadPool& pool, const CpuQmmEntry& entry, const Tensor& x, const PreparedActivations& out) {
  if (out.m * out.k < kParallelElements) {
    entry.prepare(x, 0, out.m, out);
  } else {
    pool.parallel_for(out.m, 8, [&](int64_t begin, int64_t end, int) { entry.prepare(x, begin, end, out); });
  }
}

/// One loop over the outputs of several parts: unit u is panel i of the part that holds it, or its i-th run of outputs.
struct Work {
  std::array<const QmmPart*, kMaxParts> parts{};
  std::array<int64_t, kMaxParts> unit{};        // outputs: n_step but at least kLeastUnit; rows with panels: a panel
  std::array<int64_t, kMaxParts> panel_rows{};  // 0: no panels
  std::array<int64_t, kMaxParts + 1> first_unit{};
  size_t n_parts = 0;
  int64_t bytes = 0;
  size_t scratch_bytes = 0;  // a thread

  void add(const QmmPart& part, size_t scratch, int64_t rows_a_panel) {
    parts[n_parts] = &part;
    panel_rows[n_parts] = rows_a_panel;
    unit[n_parts] = rows_a_panel > 0 ? rows_a_panel : std::max<int64_t>(kLeastUnit, entry_of(part).n_step);
    first_unit[n_parts + 1] = first_unit[n_parts] + (part.weight->n + unit[n_parts] - 1) / unit[n_parts];
    ++n_parts;
    bytes += int64_t(weight_bytes(*part.weight));
    scratch_bytes = std::max(scratch_bytes, align64(scratch));
  }
  int64_t units() const { return first_unit[n_parts]; }
};

/// About 16 chunks a thread, but none below 512 KiB of weights while each thread still gets two.
int64_t units_a_chunk(const Work& work, int n_threads) {
  const int64_t units = work.units();
  const int64_t fine = units / (kChunksAThread * n_threads);
  const int64_t large = kChunkBytes * units / std::max<int64_t>(work.bytes, 1);
  const int64_t most = (units + 2 * n_threads - 1) / (2 * n_threads);
  return std::clamp<int64_t>(std::max(fine, large), 1, std::max<int64_t>(most, 1));
}

void run_units(const Work& work, const CpuQmmRange& common, int64_t begin, int64_t end) {
  for (size_t p = 0; p < work.n_parts; ++p) {
    const int64_t lo = std::max(begin, work.first_unit[p]) - work.first_unit[p];
    const int64_t hi = std::min(end, work.first_unit[p + 1]) - work.first_unit[p];
    if (lo >= hi) continue;
    const QmmPart& part = *work.parts[p];
    CpuQmmRange range = common;
    QuantWeight weight = *part.weight;
    if (part.packed) weight.words = part.packed;
    range.weight = &weight;
    range.y = &part.y;
    range.begin = lo * work.unit[p];
    range.end = std::min(hi * work.unit[p], part.weight->n);
    range.dense = part.dense;
    range.panel_rows = work.panel_rows[p];
    entry_of(part).run(range);
  }
}

/// Prepares x once in the form of `key` and runs every part that wants it so.
void run_parts_of(ThreadPool& pool, CpuPanels& panels, const QmmArgs& args, const CpuQmmEntry& preparer,
                  const ActivationKey& key) {
  const int64_t m = args.x.dim(0);
  Work work;
  for (const QmmPart& part : args.parts) {
    if (key_of(part) != key) continue;
    const CpuQmmEntry& entry = entry_of(part);
    const size_t scratch = entry.scratch_bytes(qmm_spec(*part.weight, args.x.dtype), m, panels.bytes);
    work.add(part, scratch, entry.panel_rows ? entry.panel_rows(part.weight->k, panels.bytes) : 0);
    if (entry.panel_rows) {
      panels.high_water_bytes = std::max<uint64_t>(panels.high_water_bytes, align64(scratch) * size_t(pool.size()));
    }
  }
  uint8_t* const workspace = static_cast<uint8_t*>(args.workspace);
  const size_t x_bytes = activation_bytes(key, m, args.x.dim(1), args.x.dtype);
  LOFT_CHECK_MSG(x_bytes + work.scratch_bytes * size_t(pool.size()) <= args.workspace_bytes,
                 "workspace of {} bytes, wanted {}", args.workspace_bytes,
                 x_bytes + work.scratch_bytes * size_t(pool.size()));
  const PreparedActivations x = place_activations(args.x, key, workspace);
  prepare(pool, preparer, args.x, x);
  pool.parallel_for(work.units(), units_a_chunk(work, pool.size()), [&](int64_t begin, int64_t end, int thread) {
    CpuQmmRange common;
    common.x = &x;
    common.scratch = workspace + x_bytes + size_t(thread) * work.scratch_bytes;
    common.gemm_fallbacks = &panels.gemm_fallbacks;
    common.kernels = panels.kernels;
    run_units(work, common, begin, end);
  });
}

}  // namespace

void cpu_run_qmm(ThreadPool& pool, CpuPanels& panels, const QmmArgs& args) {
  LOFT_CHECK(args.parts.size() <= kMaxParts);
  for (size_t i = 0; i < args.parts.size(); ++i) {
    const ActivationKey key = key_of(args.parts[i]);
    const bool is_done = std::any_of(args.parts.begin(), args.parts.begin() + ptrdiff_t(i),
                                     [&](const QmmPart& earlier) { return key_of(earlier) == key; });
    if (!is_done) run_parts_of(pool, panels, args, entry_of(args.parts[i]), key);
  }
}

void cpu_dequantize(ThreadPool& pool, const RowKernels& kernels, const QuantWeight& w, DType dtype, void* out) {
  const auto round = kernels.scale_cast[float_index(DType::F32)][float_index(dtype)];
  pool.parallel_for(w.n, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(size_t(w.k));
    for (int64_t n = begin; n < end; ++n) {
      uint8_t* const to = static_cast<uint8_t*>(out) + size_t(n * w.k) * dtype_bytes(dtype);
      dequantize_run(w, n, 0, w.k, row.data());
      round(row.data(), 1.0f, to, w.k);
    }
  });
}

}  // namespace loft
