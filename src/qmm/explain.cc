// qmm: the text of a decision.
#include "qmm/explain.h"

#include <fmt/format.h>

#include "quant/format.h"

namespace loft {

std::string explain(const QmmProblem& problem, const DeviceInfo& device, const RouteDecision& decision) {
  const QmmSpec& s = problem.spec;
  std::string text = fmt::format("{} x {}, {} {}, n {}, k {}, m {}, {}: ", format_name(s.format), dtype_name(s.x_dtype),
                                 dtype_name(s.scale_dtype),
                                 s.format.kind == QuantKind::Dense ? "weights"
                                 : s.has_biases                    ? "scales and biases"
                                                                   : "scales",
                                 s.n, s.k, problem.m, device.name);
  text += decision.kernel ? fmt::format("holds for m {}..{}\n", decision.same.lo, decision.same.hi)
                          : std::string("no row serves\n");
  const auto line = [&](char mark, const QmmKernel& row, const std::string& verdict) {
    text += fmt::format("{} {:<34} {:<10} {:<10} {}\n", mark, row.name, route_name(row.route), layout_name(row.layout),
                        verdict);
  };
  const auto lines = [&](const std::vector<Refusal>& refused, const QmmKernel* kernel, const char* verdict) {
    for (const Refusal& r : refused) line(' ', *r.row, fmt::format("refused: {}", r.why));
    if (kernel) line('*', *kernel, verdict);
  };
  if (decision.decided_by || !decision.refused_there.empty()) {
    lines(decision.refused_there, decision.decided_by, "decides the route");
    text += fmt::format("{} carries it out:\n", device.name);
  }
  lines(decision.refused, decision.kernel, "runs");
  return text;
}

}  // namespace loft
