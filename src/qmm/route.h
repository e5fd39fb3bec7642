// qmm: which kernel row serves a quantized product. Pure decisions over values: no memory, no clock, no environment.
// What enters: the problem, the weight's layout, the device, the policy, the table. What leaves: a RouteDecision.
#pragma once
#include <span>
#include <vector>

#include "backend/device_info.h"
#include "backend/qmm_kernel.h"

namespace loft {

/// A row that was asked before the chosen one, and why it does not serve.
struct Refusal {
  const QmmKernel* row = nullptr;
  const char* why = nullptr;  // a constant string
};

struct RouteDecision {
  const QmmKernel* kernel = nullptr;  // null: no row serves
  MRange same{1, INT_MAX};            // every m for which this answer stands
  std::vector<Refusal> refused;       // in table order
  // Under QmmPolicy::route_as: the row of the other device's table that decided the route, and its refusals. It does
  // not run; `kernel` is the first row here that carries out its route.
  const QmmKernel* decided_by = nullptr;
  std::vector<Refusal> refused_there;
};

/// The layout of the first row that can run the weight at all (ruy's Path); Checkpoint when no row can.
Layout choose_layout(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy,
                     std::span<const QmmKernel> rows);

/// The first row of that layout whose range holds m (ruy's Tuning): the order of the table is the policy. Under
/// QmmPolicy::route_as the described device's table gives the route, then these rows are asked for that route only.
RouteDecision select_qmm_route(const QmmProblem& problem, Layout layout, const DeviceInfo& device,
                               const QmmPolicy& policy, std::span<const QmmKernel> rows);

/// The largest workspace_bytes of all rows that select_qmm_route can return for some m in [1, max_m].
size_t largest_workspace_bytes(const QmmSpec& spec, int64_t max_m, const DeviceInfo& device, const QmmPolicy& policy,
                               std::span<const QmmKernel> rows);

}  // namespace loft
