// apps: the list of subcommands. A subcommand is one file and one row here.
#include "apps/apps.h"

namespace loft {
namespace {

constexpr Positional kTwoTraces[] = {{"REFERENCE", "trace of the baseline", true},
                                     {"CANDIDATE", "trace to judge", true}};

constexpr Subcommand kSubcommands[] = {
    {"compare", kCompare, "Holds two logit traces against each other.", kTwoTraces,
     "Reads traces of loft and of the published tool. Exit status: 0; 1 and 6 by --fail-on; 2 when not comparable.",
     run_compare},
    {"version", kVersion, "Version, commit and build of this program.", {}, "", run_version},
};

}  // namespace

std::span<const Subcommand> subcommands() {
  return kSubcommands;
}

}  // namespace loft
