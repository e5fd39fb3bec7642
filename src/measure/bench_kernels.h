// measure: where the time of a pass went, as JSON and as a table: the rows of --kernels. Pure.
#pragma once
#include <string>

#include "core/json.h"
#include "measure/bench_run.h"
#include "measure/stream_ceiling.h"

namespace loft {

/// {"ms": of the pass, "covered": share of it, "rows": [{kernel, route, calls, ms, share, gb, gbps, share_of_ceiling,
/// tflops}]}. share is of the pass; null where a figure has no meaning. What no call covers is a row "unattributed"
/// when it is more than a twentieth.
OrderedJson kernels_json(const KernelPass& pass, const Ceiling& ceiling);

/// The rows as a Markdown table under one line; "" for null.
std::string kernels_text(const OrderedJson& kernels);

}  // namespace loft
