// apps: the list of subcommands. A subcommand is one file and one row here.
#include "apps/apps.h"

namespace loft {
namespace {

constexpr Subcommand kSubcommands[] = {
    {"version", kVersion, "Version, commit and build of this program.", {}, "", run_version},
};

}  // namespace

std::span<const Subcommand> subcommands() {
  return kSubcommands;
}

}  // namespace loft
