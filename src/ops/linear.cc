// ops: linear layers. What enters: a layer, rows of x. What leaves: rows of y, by one backend call. The row of the
// table is chosen when m leaves the range for which the last choice stands.
#include "ops/linear.h"

#include <algorithm>
#include <array>

#include "core/log.h"
#include "ops/prepack.h"
#include "qmm/explain.h"
#include "qmm/fold_batch.h"
#include "qmm/route.h"
#include "qmm/simulate.h"

namespace loft {
namespace {

QmmSpec spec_of(const Linear& layer) {
  QmmSpec spec = qmm_spec(layer.weight, layer.x_dtype);
  if (layer.weight_n > 0) spec.n = layer.weight_n;
  return spec;
}

DequantKey key_of(const Linear& layer) {
  const QuantFormat& format = layer.weight.format;
  return {.weight_id = layer.weight_id,
          .kind = format.kind,
          .bits = format.bits,
          .group = format.group,
          .dtype = layer.x_dtype};
}

size_t dense_row_bytes(const Linear& layer) {
  return size_t(layer.weight.k) * dtype_bytes(layer.x_dtype);
}

bool is_one_weight(std::span<Linear* const> layers) {
  const QmmSpec first = spec_of(*layers[0]);
  return std::all_of(layers.begin(), layers.end(), [&](const Linear* layer) {
    const QmmSpec spec = spec_of(*layer);
    return spec.format == first.format && spec.scale_dtype == first.scale_dtype &&
           spec.has_biases == first.has_biases && spec.k == first.k;
  });
}

std::string known_rows(std::span<const QmmKernel> rows) {
  std::string names;
  for (const QmmKernel& row : rows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

void check_forced_name(const QmmPolicy& policy, std::span<const QmmKernel> rows) {
  if (policy.forced_kernel.empty()) return;
  for (const QmmKernel& row : rows) {
    if (policy.forced_kernel == row.name) return;
  }
  fail(Code::BadRequest, "qmm-kernel: no row named \"{}\"; this backend has {}", policy.forced_kernel,
       known_rows(rows));
}

/// Sets layer.kernel and layer.same for this m. Error: Unsupported with every row's refusal.
void choose_row(Backend& backend, Linear& layer, int64_t m) {
  if (layer.kernel && m >= layer.same.lo && m <= layer.same.hi) return;
  const QmmProblem problem{.spec = spec_of(layer), .m = m};
  const RouteDecision d =
      select_qmm_route(problem, layer.layout, backend.device(), backend.policy(), backend.qmm_table());
  if (!d.kernel) {
    fail(Code::Unsupported, "{}: no kernel for this product: {}", layer.name, explain(problem, backend.device(), d));
  }
  if (backend.policy().explain_routes) log_warn("{}: {}", layer.name, explain(problem, backend.device(), d));
  layer.kernel = d.kernel;
  layer.same = d.same;
}

void check_shapes(const Linear& layer, const Tensor& x, const Tensor& y) {
  LOFT_CHECK_MSG(x.rank == 2 && x.is_contiguous() && x.dim(1) == layer.weight.k, "{}: x [{}, {}], k {}", layer.name,
                 x.dim(0), x.dim(1), layer.weight.k);
  LOFT_CHECK_MSG(y.rank == 2 && y.stride[1] == 1 && y.dim(0) == x.dim(0) && y.dim(1) == layer.weight.n,
                 "{}: y [{}, {}], wanted [{}, {}]", layer.name, y.dim(0), y.dim(1), x.dim(0), layer.weight.n);
  LOFT_CHECK_MSG(x.dtype == layer.x_dtype && y.dtype == layer.x_dtype, "{}: prepared for {}", layer.name,
                 dtype_name(layer.x_dtype));
}

}  // namespace

size_t prepare_linear(Backend& backend, Linear& layer, DType x_dtype, int64_t max_m) {
  const std::span<const QmmKernel> rows = backend.qmm_table();
  check_forced_name(backend.policy(), rows);
  layer.x_dtype = x_dtype;
  const QmmSpec spec = spec_of(layer);
  layer.wanted = layer.layout = choose_layout(spec, backend.device(), backend.policy(), rows);
  layer.kernel = nullptr;
  choose_row(backend, layer, max_m);
  choose_row(backend, layer, 1);
  wait_for_packing(backend, layer);
  return largest_workspace_bytes(spec, max_m, backend.device(), backend.policy(), rows);
}

void prepare_weights(Backend& backend, LinearPlan& plan, std::span<Linear* const> layers, DType x_dtype,
                     int64_t max_m) {
  if (layers.size() > 1 && !is_one_weight(layers)) {
    for (Linear* layer : layers) prepare_weights(backend, plan, {&layer, 1}, x_dtype, max_m);
    return;
  }
  ++plan.n_weights;
  int64_t n = 0;
  for (const Linear* layer : layers) n += layer->weight.n;
  for (Linear* layer : layers) {
    layer->weight_id = plan.n_weights;
    layer->weight_n = n;
    plan.workspace_bytes = std::max(plan.workspace_bytes, prepare_linear(backend, *layer, x_dtype, max_m));
  }
  const Linear& first = *layers[0];
  if (can_reach_dequant_cache(spec_of(first), backend.device(), backend.policy(), backend.qmm_table())) {
    plan.weights.push_back({key_of(first), uint64_t(n) * dense_row_bytes(first)});
  }
}

LinearWorkspace make_linear_workspace(Backend& backend, const LinearPlan& plan, const DequantCacheOptions& options) {
  LinearWorkspace workspace{.buffer = backend.allocate(std::max<size_t>(plan.workspace_bytes, 64)),
                            .cache = std::make_unique<DequantCache>(backend, options.mode, options.limits),
                            .row_counts = std::vector<uint64_t>(backend.qmm_table().size())};
  if (plan.n_weights > 0) workspace.cache->set_plan(plan.weights);
  return workspace;
}

QmmStats linear_stats(const Backend& backend, const LinearWorkspace& workspace) {
  QmmStats stats;
  const std::span<const QmmKernel> rows = backend.qmm_table();
  for (size_t i = 0; i < workspace.row_counts.size(); ++i) {
    if (workspace.row_counts[i] == 0) continue;
    stats.routes[size_t(rows[i].route)] += workspace.row_counts[i];
    stats.kernels[rows[i].name] += workspace.row_counts[i];
  }
  const PanelStats panels = backend.panel_stats();
  stats.cache = workspace.cache->stats();
  stats.packed = workspace.packed;
  stats.panel_high_water_bytes = panels.high_water_bytes;
  stats.gemm_fallbacks = panels.gemm_fallbacks;
  return stats;
}

void linear(Backend& backend, LinearWorkspace& workspace, Linear& layer, const Tensor& x, const Tensor& y) {
  Linear* const layers[] = {&layer};
  const Tensor outputs[] = {y};
  linear_many(backend, workspace, layers, x, outputs);
}

namespace {

/// Decodes the segments one behind the other.
void decode_segments(Backend& backend, std::span<Linear* const> segments, void* out) {
  for (const Linear* segment : segments) {
    backend.dequantize(segment->weight, segment->x_dtype, out);
    out = static_cast<uint8_t*>(out) + size_t(segment->weight.n) * dense_row_bytes(*segment);
  }
}

/// The dense rows of one weight, if a cache or a temporary holds them for this call; else null, and panels decode.
std::shared_ptr<const Buffer> dense_rows(Backend& backend, DequantCache& cache, std::span<Linear* const> segments) {
  const Linear& first = *segments[0];
  const QmmRoute route = first.kernel->route;
  if (route != QmmRoute::DequantGemm && route != QmmRoute::DequantGemmAboveWmmaCeiling) return nullptr;
  size_t bytes = 0;
  for (const Linear* segment : segments) bytes += size_t(segment->weight.n) * dense_row_bytes(*segment);
  const auto decode = [&](void* out) { decode_segments(backend, segments, out); };
  if (route == QmmRoute::DequantGemmAboveWmmaCeiling) {
    cache.count_bypass();
  } else if (auto found = cache.acquire(key_of(first), bytes, decode)) {
    return found;
  }
  if (backend.policy().panel_bytes != 0) return nullptr;
  auto temporary = std::make_shared<const Buffer>(backend.allocate(bytes));
  decode(temporary->data());
  return temporary;
}

/// How many layers from `first` on are segments of one weight.
size_t count_segments(std::span<Linear* const> layers, size_t first) {
  size_t end = first + 1;
  while (end < layers.size() && layers[first]->weight_id != 0 && layers[end]->weight_id == layers[first]->weight_id) {
    ++end;
  }
  return end - first;
}

/// t [batch, m, c] as rows [batch * m, c] of the same memory.
Tensor rows_of_batch(const Tensor& t) {
  const int64_t row = t.dim(1) > 1 ? t.stride[1] : t.stride[0];
  LOFT_CHECK(t.rank == 3 && (t.dim(0) <= 1 || t.stride[0] == t.dim(1) * row));
  Tensor rows = make_tensor(t.data, t.dtype, {t.dim(0) * t.dim(1), t.dim(2)});
  rows.stride = {row, t.stride[2]};
  return rows;
}

/// Item i of t [batch, m, c], as [m, c].
Tensor item_of_batch(const Tensor& t, int64_t i) {
  Tensor item = make_tensor(static_cast<uint8_t*>(t.data) + size_t(i * t.stride[0]) * dtype_bytes(t.dtype), t.dtype,
                            {t.dim(1), t.dim(2)});
  item.stride = {t.stride[1], t.stride[2]};
  return item;
}

void linear_batch(Backend& backend, LinearWorkspace& workspace, std::span<Linear* const> layers, const Tensor& x,
                  std::span<const Tensor> outputs) {
  const auto run = [&](const auto& view) {
    std::array<Tensor, kMaxLinearParts> ys;
    std::transform(outputs.begin(), outputs.end(), ys.begin(), view);
    linear_many(backend, workspace, layers, view(x), std::span(ys).first(outputs.size()));
  };
  QmmProblem problem{.spec = spec_of(*layers[0]), .m = x.dim(1)};
  problem.spec.batch_x = int(x.dim(0));
  if (fold_batch(problem, x.is_contiguous()).spec.batch_x == 1) return run(rows_of_batch);
  for (int64_t i = 0; i < x.dim(0); ++i) run([i](const Tensor& t) { return item_of_batch(t, i); });
}

}  // namespace

void linear_many(Backend& backend, LinearWorkspace& workspace, std::span<Linear* const> layers, const Tensor& x,
                 std::span<const Tensor> outputs) {
  LOFT_CHECK(layers.size() == outputs.size() && layers.size() <= size_t(kMaxLinearParts));
  if (layers.empty() || x.dim(0) == 0) return;
  if (x.rank == 3) return linear_batch(backend, workspace, layers, x, outputs);
  std::array<QmmPart, kMaxLinearParts> parts;
  for (size_t i = 0; i < layers.size(); ++i) {
    Linear& layer = *layers[i];
    check_shapes(layer, x, outputs[i]);
    pack_when_due(backend, workspace.packed, layer);
    choose_row(backend, layer, x.dim(0));
    parts[i] = {.kernel = layer.kernel, .weight = &layer.weight, .packed = layer.packed.data(), .y = outputs[i]};
  }
  std::array<std::shared_ptr<const Buffer>, kMaxLinearParts> held;  // until the product is done
  for (size_t first = 0, count = 0; first < layers.size(); first += count) {
    count = count_segments(layers, first);
    ++workspace.row_counts[size_t(layers[first]->kernel - backend.qmm_table().data())];
    held[first] = dense_rows(backend, *workspace.cache, layers.subspan(first, count));
    const uint8_t* at = held[first] ? static_cast<const uint8_t*>(held[first]->data()) : nullptr;
    for (size_t i = first; at && i < first + count; ++i) {
      parts[i].dense = at;
      at += size_t(layers[i]->weight.n) * dense_row_bytes(*layers[i]);
    }
  }
  backend.run_qmm({.x = x,
                   .parts = std::span(parts).first(layers.size()),
                   .workspace = workspace.buffer.data(),
                   .workspace_bytes = workspace.buffer.bytes()});
  if (held[0] || held[1] || held[2] || held[3]) backend.synchronize();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i]->bias) backend.add_bias(outputs[i], *layers[i]->bias, outputs[i]);
  }
}

}  // namespace loft
