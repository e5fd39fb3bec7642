// backend/hip: the published decision order (docs/quantized_matmul.md) as rows. Each condition that looks at m is an
// interval, "from m on", so first-row-that-fits gives the published answer; qmm/published_test.cc holds the rows
// against the literal conditions over a full grid.
#include "backend/hip/qmm_table.h"

#include <algorithm>

#include "backend/device_info.h"
#include "backend/hip/gpu_tiers.h"

namespace loft {
namespace {

constexpr int64_t kMaxRows = INT_MAX;
constexpr MRange kNone{1, 0};

bool is_single(const QmmSpec& s) {
  return s.batch_x == 1 && s.batch_w == 1;
}

bool is_one_of(int bits, std::initializer_list<int> list) {
  return std::find(list.begin(), list.end(), bits) != list.end();
}

// Bit widths that the published GEMV decodes; 3-bit affine is not among them.
bool has_gemv_bits(const QmmSpec& s) {
  return is_one_of(s.format.bits, {2, 4, 8}) ||
         (s.format.kind == QuantKind::Affine && is_one_of(s.format.bits, {5, 6}));
}

bool is_batchable(const QmmSpec& s) {
  const int batch = std::max(s.batch_x, s.batch_w);
  return s.transposed && has_gemv_bits(s) && batch > 1 && (s.batch_x == 1 || s.batch_x == batch) &&
         (s.batch_w == 1 || s.batch_w == batch);
}

bool must_dequantize(const QmmSpec& s) {
  return !s.transposed || !has_gemv_bits(s) || (!is_single(s) && !is_batchable(s));
}

// From how many rows dequantize + GEMM is preferred.
int64_t crossover(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (must_dequantize(s)) return 1;
  if (policy.dequant_m_threshold) return *policy.dequant_m_threshold;
  const GpuTierRow& tier = gpu_tier(device, policy.force_low_cu);
  const int size = s.n <= 2048 && s.k <= 2048 ? 0 : s.n <= 4096 && s.k <= 4096 ? 1 : 2;
  constexpr int64_t kBatchExtra[] = {8, 6, 4};
  const int64_t base[] = {tier.small, tier.medium, tier.large};
  if (is_batchable(s)) return base[size] + kBatchExtra[size];
  if (is_single(s) && s.n >= 8192 && s.k >= 2048) return std::max<int64_t>(base[size] - 4, 8);
  return base[size];
}

const char* why_no_dequant(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (s.format.kind != QuantKind::Affine) return "needs an affine weight";
  if (!device.has_gemm_library) return "libhipblaslt not found";
  if (!policy.dequant_gemm) return "qmm-dequant-gemm is off";
  return nullptr;
}

const char* why_no_fused(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.fused == QmmFused::Off) return "qmm-fused is off";
  if (policy.fused == QmmFused::Auto && gpu_tier(device, policy.force_low_cu).is_low_cu) return "few compute units";
  if (!device.has_wmma) return "needs wmma";
  if (!s.transposed) return "needs w [n, k]";
  if (s.format.kind != QuantKind::Affine) return "needs an affine weight";
  if (s.x_dtype != DType::BF16 || s.scale_dtype != DType::BF16) return "needs bf16 x, scales and biases";
  if (!is_single(s)) return "needs a single product";
  if (s.n % 16 != 0) return "needs n % 16 == 0";
  if (s.format.group != 64) return "needs group 64";
  if (s.k % 64 != 0) return "needs k % 64 == 0";
  if (!is_one_of(s.format.bits, {4, 6, 8})) return "needs 4, 6 or 8 bits";
  return nullptr;
}

// 4- and 8-bit weights with biases have a GEMV that serves up to 8 rows.
int64_t fused_from(const QmmSpec& s, const QmmPolicy& policy) {
  const bool wide_rows = is_one_of(s.format.bits, {4, 8}) && s.has_biases && policy.fused != QmmFused::Force;
  return wide_rows ? 9 : 2;
}

int64_t fused_ceiling(const DeviceInfo& device, const QmmPolicy& policy) {
  return policy.fused_max_m.value_or(gpu_tier(device, policy.force_low_cu).fused_ceiling);
}

bool takes_fp8(const QmmSpec& s, const DeviceInfo& device) {
  return device.has_fp8 && s.x_dtype == DType::BF16 && is_single(s);
}

const char* reject_above_ceiling(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = why_no_fused(s, device, policy)) return why;
  if (policy.fused == QmmFused::Force) return "qmm-fused=force removes the ceiling";
  return why_no_dequant(s, device, policy);
}

const char* reject_above_ceiling_bypass(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.above_ceiling == QmmAboveCeiling::Cache) return "qmm-above-ceiling is cache";
  return reject_above_ceiling(s, device, policy);
}

const char* reject_above_ceiling_cache(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.above_ceiling == QmmAboveCeiling::Bypass) return "qmm-above-ceiling is bypass";
  return reject_above_ceiling(s, device, policy);
}

MRange range_above_ceiling(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  const int64_t ceiling = fused_ceiling(device, policy);
  if (ceiling <= 0) return kNone;
  const int64_t lo = std::max({fused_from(s, policy), ceiling, crossover(s, device, policy)});
  return {lo, takes_fp8(s, device) ? 63 : kMaxRows};
}

const char* reject_fused(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  return why_no_fused(s, device, policy);
}

MRange range_fused(const QmmSpec& s, const DeviceInfo&, const QmmPolicy& policy) {
  return {fused_from(s, policy), kMaxRows};
}

const char* reject_fp8(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  if (!device.has_fp8) return "the device fails the fp8 probe";
  if (s.x_dtype != DType::BF16) return "needs bf16 x";
  if (!is_single(s)) return "needs a single product";
  return why_no_dequant(s, device, policy);
}

MRange range_fp8(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  return {std::max<int64_t>(64, crossover(s, device, policy)), kMaxRows};
}

MRange range_dequant(const QmmSpec& s, const DeviceInfo& device, const QmmPolicy& policy) {
  return {crossover(s, device, policy), kMaxRows};
}

const char* reject_none(const QmmSpec&, const DeviceInfo& device, const QmmPolicy&) {
  return device.kind == DeviceKind::Hip ? nullptr : "needs an AMD GPU";
}

MRange any_m(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {};
}

size_t no_workspace(const QmmSpec&, int64_t, const DeviceInfo&) {
  return 0;
}

constexpr QmmKernel kRows[] = {
    {"qmm_affine_panels_hipblaslt", QmmRoute::DequantGemmAboveWmmaCeiling, Layout::Checkpoint, false,
     range_above_ceiling, reject_above_ceiling_bypass, no_workspace, nullptr},
    {"qmm_affine_cached_hipblaslt", QmmRoute::DequantGemm, Layout::Checkpoint, false, range_above_ceiling,
     reject_above_ceiling_cache, no_workspace, nullptr},
    {"qmm_affine_bf16_64x128_gfx11", QmmRoute::WmmaDense, Layout::Checkpoint, false, range_fused, reject_fused,
     no_workspace, nullptr},
    {"qmm_affine_bf16_fp8_hipblaslt", QmmRoute::DequantFp8Gemm, Layout::Checkpoint, false, range_fp8, reject_fp8,
     no_workspace, nullptr},
    {"qmm_affine_dequant_hipblaslt", QmmRoute::DequantGemm, Layout::Checkpoint, false, range_dequant, why_no_dequant,
     no_workspace, nullptr},
    {"qmv_any_gfx", QmmRoute::Gemv, Layout::Checkpoint, false, any_m, reject_none, no_workspace, nullptr},
};

}  // namespace

std::span<const QmmKernel> hip_qmm_table() {
  return kRows;
}

}  // namespace loft
