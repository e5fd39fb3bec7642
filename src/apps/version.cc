// apps: loft version.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "core/json.h"

namespace loft {

int run_version(const ParsedArgs& args) {
#ifdef LOFT_CUDA
  constexpr const char* kBackends = "cpu cuda";
#else
  constexpr const char* kBackends = "cpu";
#endif
  if (args.options.json) {
    const OrderedJson out = {{"schema", "loft.version/1"},
                             {"version", LOFT_VERSION},
                             {"commit", LOFT_COMMIT},
                             {"compiler", __VERSION__},
                             {"backends", kBackends}};
    fmt::print("{}\n", dump_json(out));
    return 0;
  }
  fmt::print("loft {} ({})\ncompiler {}\nbackends {}\n", LOFT_VERSION, LOFT_COMMIT, __VERSION__, kBackends);
  return 0;
}

}  // namespace loft
