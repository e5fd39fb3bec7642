// qmm: a RouteDecision as text: what was asked, which rows refused and why, which one runs. Makes --explain-routes,
// `loft routes` and the message of an Unsupported error.
#pragma once
#include <string>

#include "qmm/route.h"

namespace loft {

/// "affine4g64 x f32, f16 scales and biases, n 4096, k 4096, m 64, cpu-zen4: holds for m 9..2147483647", then a line a
/// row. Under qmm-route-as the rows of the device that decides come first, then those of the one that runs.
std::string explain(const QmmProblem& problem, const DeviceInfo& device, const RouteDecision& decision);

}  // namespace loft
