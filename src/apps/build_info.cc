// apps: CMake gives this one file the LOFT_VERSION, LOFT_BUILD_TYPE and LOFT_BUILD_FLAGS, and each build writes
// build_facts.h with LOFT_COMMIT and LOFT_DIRTY.
#include "apps/build_info.h"

#include <build_facts.h>
#include <nlohmann/json.hpp>

namespace loft {

OrderedJson build_json() {
#ifdef LOFT_CUDA
  constexpr const char* kBackends = "cpu cuda";
#else
  constexpr const char* kBackends = "cpu";
#endif
  return {{"version", LOFT_VERSION}, {"commit", LOFT_COMMIT},     {"dirty", LOFT_DIRTY != 0}, {"type", LOFT_BUILD_TYPE},
          {"compiler", __VERSION__}, {"flags", LOFT_BUILD_FLAGS}, {"backends", kBackends}};
}

}  // namespace loft
