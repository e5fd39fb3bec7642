#include "qmm/predicate.h"

#include "backend/described_devices.h"
#include "qmm/route.h"

namespace loft {

bool quantized_matmul_runs_dequant_gemm(const DeviceInfo& device, const QmmProblem& problem, const QmmPolicy& policy) {
  const DType x = problem.spec.x_dtype;
  if (problem.m < 2 || (x != DType::F16 && x != DType::BF16)) return false;
  const std::span<const QmmKernel> rows = qmm_table_of(device.kind);
  const Layout layout = choose_layout(problem.spec, device, policy, rows);
  const RouteDecision d = select_qmm_route(problem, layout, device, policy, rows);
  return d.kernel &&
         (d.kernel->route == QmmRoute::DequantGemm || d.kernel->route == QmmRoute::DequantGemmAboveWmmaCeiling);
}

}  // namespace loft
