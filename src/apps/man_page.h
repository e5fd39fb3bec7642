// apps: the manual page.
#pragma once
#include <string>

#include "apps/apps.h"

namespace loft {

/// loft(1) in roff, of all subcommands and options.
std::string man_page();

}  // namespace loft
