// ops: linear layers. What enters: a layer, rows of x. What leaves: rows of y, by one backend call. The row of the
// table is chosen when m leaves the range for which the last choice stands.
#include "ops/linear.h"

#include <array>

#include "core/log.h"
#include "qmm/explain.h"
#include "qmm/route.h"

namespace loft {
namespace {

QmmSpec spec_of(const Linear& layer) {
  const QuantWeight& w = layer.weight;
  const bool is_dense = w.format.kind == QuantKind::Dense;
  return {.format = w.format,
          .x_dtype = layer.x_dtype,
          .scale_dtype = is_dense ? w.dense_dtype : w.scale_dtype,
          .has_biases = w.biases != nullptr,
          .transposed = true,
          .n = w.n,
          .k = w.k};
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
  layer.layout = choose_layout(spec, backend.device(), backend.policy(), rows);
  layer.kernel = nullptr;
  choose_row(backend, layer, max_m);
  choose_row(backend, layer, 1);
  return largest_workspace_bytes(spec, max_m, backend.device(), backend.policy(), rows);
}

LinearWorkspace make_linear_workspace(Backend& backend, size_t bytes) {
  return {.buffer = backend.allocate(bytes > 0 ? bytes : 64),
          .row_counts = std::vector<uint64_t>(backend.qmm_table().size())};
}

void linear(Backend& backend, LinearWorkspace& workspace, Linear& layer, const Tensor& x, const Tensor& y) {
  Linear* const layers[] = {&layer};
  const Tensor outputs[] = {y};
  linear_many(backend, workspace, layers, x, outputs);
}

void linear_many(Backend& backend, LinearWorkspace& workspace, std::span<Linear* const> layers, const Tensor& x,
                 std::span<const Tensor> outputs) {
  LOFT_CHECK(layers.size() == outputs.size() && layers.size() <= size_t(kMaxLinearParts));
  if (layers.empty() || x.dim(0) == 0) return;
  std::array<QmmPart, kMaxLinearParts> parts;
  for (size_t i = 0; i < layers.size(); ++i) {
    Linear& layer = *layers[i];
    check_shapes(layer, x, outputs[i]);
    choose_row(backend, layer, x.dim(0));
    ++workspace.row_counts[size_t(layer.kernel - backend.qmm_table().data())];
    parts[i] = {.kernel = layer.kernel, .weight = &layer.weight, .packed = layer.packed.data(), .y = outputs[i]};
  }
  backend.run_qmm({.x = x,
                   .parts = std::span(parts).first(layers.size()),
                   .workspace = workspace.buffer.data(),
                   .workspace_bytes = workspace.buffer.bytes()});
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i]->bias) backend.add_bias(outputs[i], *layers[i]->bias, outputs[i]);
  }
}

}  // namespace loft
