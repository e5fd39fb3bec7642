// text/jinja: JSON to values. Enters: JSON as core/json.h parses it, keys in their order. Leaves: the value a template
// sees.
#pragma once
#include "core/json.h"
#include "text/jinja/value.h"

namespace loft::jinja {

/// Errors: BadRequest beyond 80 levels of nesting.
Value value_of(const OrderedJson& json, int depth = 0);

}  // namespace loft::jinja
