// apps: which build this is, for `loft version` and for every result file.
#pragma once
#include "core/json.h"

namespace loft {

/// {version, commit, dirty, type, compiler, flags, backends}. commit and dirty are those of the tree when it was built.
OrderedJson build_json();

}  // namespace loft
