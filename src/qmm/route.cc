// qmm: the whole selector. Read this first: rows are asked in order; the first that fits wins.
#include "qmm/route.h"

#include <algorithm>

#include "backend/described_devices.h"

namespace loft {
namespace {

/// The row's own reason, or that another row is forced by option. reject is asked first: it holds the truer reason.
const char* why_not(const QmmKernel& row, const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.only_route && row.route != *policy.only_route) return "another route was decided";
  if (const char* why = row.reject(spec, device, policy)) return why;
  if (!policy.forced_kernel.empty() && policy.forced_kernel != row.name) return "another row is forced by qmm-kernel";
  return nullptr;
}

RouteDecision first_that_fits(const QmmProblem& problem, Layout layout, const DeviceInfo& device,
                              const QmmPolicy& policy, std::span<const QmmKernel> rows) {
  RouteDecision d;
  for (const QmmKernel& row : rows) {
    if (const char* why = why_not(row, problem.spec, device, policy)) {
      d.refused.push_back({&row, why});
      continue;
    }
    if (row.layout != layout) {
      d.refused.push_back({&row, "the weight has another layout"});
      continue;
    }
    const MRange r = row.m_range(problem.spec, device, policy);
    if (r.lo > r.hi) {
      d.refused.push_back({&row, "no m fits"});
      continue;
    }
    if (problem.m < r.lo) {
      d.refused.push_back({&row, "m below its range"});
      d.same.hi = std::min(d.same.hi, r.lo - 1);
      continue;
    }
    if (problem.m > r.hi) {
      d.refused.push_back({&row, "m above its range"});
      d.same.lo = std::max(d.same.lo, r.hi + 1);
      continue;
    }
    d.kernel = &row;
    d.same = {std::max(d.same.lo, r.lo), std::min(d.same.hi, r.hi)};
    break;
  }
  return d;
}

/// What the described device would do. It is asked without the routes that `device` has no means for.
RouteDecision decide_there(const QmmProblem& problem, const DeviceInfo& device, const QmmPolicy& policy) {
  const std::optional<DeviceInfo> found = described_device(policy.route_as);
  LOFT_CHECK_MSG(found, "no described device {}", policy.route_as);
  DeviceInfo there = *found;
  there.has_fp8 = there.has_fp8 && device.has_fp8;
  there.has_gemm_library = there.has_gemm_library && device.has_gemm_library;
  QmmPolicy asked = policy;
  asked.route_as.clear();
  asked.forced_kernel.clear();  // names a row of this machine
  const std::span<const QmmKernel> rows = qmm_table_of(there.kind);
  return first_that_fits(problem, choose_layout(problem.spec, there, asked, rows), there, asked, rows);
}

}  // namespace

Layout choose_layout(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy,
                     std::span<const QmmKernel> rows) {
  if (!policy.route_as.empty()) return Layout::Checkpoint;  // the one that rows of every route read
  for (const QmmKernel& row : rows) {
    if (!why_not(row, spec, device, policy)) return row.layout;
  }
  return Layout::Checkpoint;
}

RouteDecision select_qmm_route(const QmmProblem& problem, Layout layout, const DeviceInfo& device,
                               const QmmPolicy& policy, std::span<const QmmKernel> rows) {
  if (policy.route_as.empty()) return first_that_fits(problem, layout, device, policy, rows);
  const RouteDecision there = decide_there(problem, device, policy);
  RouteDecision d;
  if (there.kernel) {
    QmmPolicy asked = policy;
    asked.route_as.clear();
    asked.only_route = there.kernel->route;
    d = first_that_fits(problem, layout, device, asked, rows);
  }
  d.decided_by = there.kernel;
  d.refused_there = there.refused;
  d.same = {std::max(d.same.lo, there.same.lo), std::min(d.same.hi, there.same.hi)};
  return d;
}

size_t largest_workspace_bytes(const QmmSpec& spec, int64_t max_m, const DeviceInfo& device, const QmmPolicy& policy,
                               std::span<const QmmKernel> rows) {
  size_t bytes = 0;
  // A weight is read as it lies until it is packed.
  for (const Layout layout : {Layout::Checkpoint, choose_layout(spec, device, policy, rows)}) {
    // Decisions are constant over `same`, and every row's need grows with m: one look at the end of each stretch.
    for (int64_t m = 1; m <= max_m;) {
      const RouteDecision d = select_qmm_route({.spec = spec, .m = m}, layout, device, policy, rows);
      const int64_t last = std::min(max_m, d.same.hi);
      if (d.kernel) bytes = std::max(bytes, d.kernel->workspace_bytes(spec, last, device));
      m = last + 1;
    }
  }
  return bytes;
}

}  // namespace loft
