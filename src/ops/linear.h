// ops: y = x W^T (+ bias) for dense and every quantized format: the only caller of qmm. Shapes are checked here.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/qmm_args.h"
#include "core/tensor.h"
#include "ops/dequant_cache.h"
#include "qmm/stats.h"
#include "quant/format.h"

namespace loft {

/// One linear layer of a loaded model: the weight as the checkpoint has it, its layout, the row chosen last.
struct Linear {
  std::string name;    // module path, for messages and --explain-routes
  QuantWeight weight;  // [n, k]
  // Linears of one id are row segments of one weight (q, k and v of equal formats): one route, one dense copy. 0: alone
  // and in no cache.
  uint64_t weight_id = 0;
  int64_t weight_n = 0;        // outputs of all segments; 0: those of `weight`
  std::optional<Tensor> bias;  // [n], additive bias of the layer, not the quantization bias
  Layout layout = Layout::Checkpoint;
  Layout wanted = Layout::Checkpoint;  // the layout that its best rows read; prepack.h says when it is packed
  uint64_t products_until_packed = 0;  // that it still serves as it is, where `wanted` is another layout
  Buffer packed;                       // the weight in `layout`; empty for Checkpoint
  DType x_dtype = DType::F32;          // of x and y, set by prepare_linear
  // The answer of the selector and the m for which it stands, so that later calls are one compare.
  const QmmKernel* kernel = nullptr;
  MRange same{1, 0};
};

/// What the layers of a model need, gathered while they are prepared.
struct LinearPlan {
  size_t workspace_bytes = 0;
  uint64_t n_weights = 0;                // ids given so far
  std::vector<PlannedWeight> weights{};  // those that the cache of dequantized weights can be asked for
};

/// What linear() works with: taken once when the engine opens, large enough for every layer at max_m rows.
struct LinearWorkspace {
  Buffer buffer;
  std::unique_ptr<DequantCache> cache;
  std::vector<uint64_t> row_counts;  // products so far of each row of the backend's table; a fused weight is one
  PackStats packed{};
};

/// Chooses the layout in which the weight will be packed, and proves that a row exists at m = 1 and at max_m. Error:
/// Unsupported with the refusals of every row when none fits. Returns the workspace bytes that the layer needs at max_m
/// rows.
size_t prepare_linear(Backend& backend, Linear& layer, DType x_dtype, int64_t max_m);
/// The same for layers over one x; those of equal formats become segments of one weight. Adds to the plan.
void prepare_weights(Backend& backend, LinearPlan& plan, std::span<Linear* const> layers, DType x_dtype, int64_t max_m);

struct DequantCacheOptions {
  DequantCacheMode mode = DequantCacheMode::Auto;
  DequantCacheLimits limits{};
};
LinearWorkspace make_linear_workspace(Backend& backend, const LinearPlan& plan, const DequantCacheOptions& options);
/// The counters of all products so far.
QmmStats linear_stats(const Backend& backend, const LinearWorkspace& workspace);

/// y [m, n] = x [m, k] W^T (+ bias). x and y of the dtype given to prepare_linear, rows of x contiguous, y rows may be
/// strided. Or x [batch, m, k], y [batch, m, n]: a contiguous x is folded into batch * m rows (at most the max_m of
/// prepare_linear); the items of a strided one are products of their own.
void linear(Backend& backend, LinearWorkspace& workspace, Linear& layer, const Tensor& x, const Tensor& y);

/// Several layers over one x (q/k/v, gate/up): x is prepared once. outputs[i] [m, n_i], or with a batch as x has one.
/// At most kMaxLinearParts layers.
inline constexpr int kMaxLinearParts = 4;
void linear_many(Backend& backend, LinearWorkspace& workspace, std::span<Linear* const> layers, const Tensor& x,
                 std::span<const Tensor> outputs);

}  // namespace loft
