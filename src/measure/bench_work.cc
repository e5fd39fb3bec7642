#include "measure/bench_work.h"

#include <algorithm>

#include "core/error.h"
#include "model/arch_list.h"
#include "model/kv_cache.h"
#include "model/summary.h"

namespace loft {
namespace {

/// Keys and values that a forward sees which ends at position n and began `rows` before.
double kv_bytes(const ModelConfig& c, DType dtype, int64_t n, int64_t rows) {
  const double row = 2.0 * double(c.n_kv_heads) * double(kv_row_bytes(dtype, c.head_dim));
  double bytes = 0;
  for (const int64_t window : c.layer_windows) {
    bytes += row * double(window > 0 ? std::min(n, window + rows - 1) : n);
  }
  return bytes;
}

}  // namespace

ModelWork model_work(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  const Checkpoint checkpoint(folder, config, arch->modules(config));
  const ModelSummary summary = summarize(config, checkpoint);
  ModelWork out{.model_type = config.model_type,
                .quant = summary.formats.empty() ? "dense" : format_name(summary.formats.front().format),
                .file_bytes = checkpoint.weight_bytes(),
                .n_weights = summary.n_weights,
                .config = config};
  for (const StoredModule& m : checkpoint.modules()) {
    const uint64_t bytes = weight_bytes(m.weight) + (m.bias ? m.bias->bytes.size() : 0);
    const uint64_t mul_adds = uint64_t(m.weight.n) * uint64_t(m.weight.k);
    switch (m.shape.kind) {
      case ModuleKind::Embedding:  // a row a token is nothing beside a matrix; a tied one is the head
        if (!checkpoint.is_tied()) break;
        [[fallthrough]];
      case ModuleKind::Head:
        out.head_bytes += bytes;
        out.head_mul_adds += mul_adds;
        break;
      case ModuleKind::Linear:
        out.body_bytes += bytes;
        out.body_mul_adds += mul_adds;
        break;
      case ModuleKind::Norm:
        out.body_bytes += bytes;
        break;
    }
  }
  return out;
}

TestWork test_work(const ModelWork& w, const BenchTest& t, int64_t n_batch, int64_t n_parallel, DType kv_dtype) {
  TestWork out;
  const auto forward = [&](int64_t rows, int64_t logit_rows, double kv) {
    out.bytes += double(w.body_bytes) + (logit_rows > 0 ? double(w.head_bytes) : 0.0) + kv;
    out.flops += 2.0 * (double(rows) * double(w.body_mul_adds) + double(logit_rows) * double(w.head_mul_adds));
  };
  const int64_t end = t.n_depth + t.n_prompt;
  for (int64_t i = 0; i < n_parallel; ++i) {
    for (int64_t first = t.n_depth; first < end; first += n_batch) {
      const int64_t rows = std::min(n_batch, end - first);
      forward(rows, first + rows == end ? 1 : 0, kv_bytes(w.config, kv_dtype, first + rows, rows));
    }
  }
  for (int64_t step = 0; step < t.n_gen; ++step) {
    forward(n_parallel, n_parallel, double(n_parallel) * kv_bytes(w.config, kv_dtype, end + step + 1, 1));
  }
  return out;
}

}  // namespace loft
