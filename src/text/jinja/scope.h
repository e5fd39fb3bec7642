// text/jinja: names to slots. Enters: a parsed tree. Leaves: the same tree, in which every name knows the activation
// and slot it lives in and every scope knows what it sets when it is entered.
#pragma once
#include "text/jinja/ast.h"

namespace loft::jinja {

/// jinja2 decides at compile time where a name lives: a scope that assigns a name gets a copy of the outer variable on
/// entry, a name that no scope assigns is looked up among the variables of the render. This follows the same rules,
/// because they are visible: `set` inside a loop does not leak, and a name set later in a scope hides a render variable
/// earlier in it.
void resolve_scopes(Tree& tree);

}  // namespace loft::jinja
