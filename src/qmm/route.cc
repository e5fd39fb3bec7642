// qmm: the whole selector. Read this first: rows are asked in order; the first that fits wins.
#include "qmm/route.h"

#include <algorithm>

namespace loft {
namespace {

/// The row's own reason, or that another row is forced by option. reject is asked first: it holds the truer reason.
const char* why_not(const QmmKernel& row, const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = row.reject(spec, device, policy)) return why;
  if (!policy.forced_kernel.empty() && policy.forced_kernel != row.name) return "another row is forced by qmm-kernel";
  return nullptr;
}

}  // namespace

Layout choose_layout(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy,
                     std::span<const QmmKernel> rows) {
  for (const QmmKernel& row : rows) {
    if (!why_not(row, spec, device, policy)) return row.layout;
  }
  return Layout::Checkpoint;
}

RouteDecision select_qmm_route(const QmmProblem& problem, Layout layout, const DeviceInfo& device,
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

size_t largest_workspace_bytes(const QmmSpec& spec, int64_t max_m, const DeviceInfo& device, const QmmPolicy& policy,
                               std::span<const QmmKernel> rows) {
  const Layout layout = choose_layout(spec, device, policy, rows);
  size_t bytes = 0;
  // Decisions are constant over `same`, and every row's need grows with m: one look at the end of each stretch.
  for (int64_t m = 1; m <= max_m;) {
    const RouteDecision d = select_qmm_route({.spec = spec, .m = m}, layout, device, policy, rows);
    const int64_t last = std::min(max_m, d.same.hi);
    if (d.kernel) bytes = std::max(bytes, d.kernel->workspace_bytes(spec, last, device));
    m = last + 1;
  }
  return bytes;
}

}  // namespace loft
