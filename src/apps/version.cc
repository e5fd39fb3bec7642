// apps: loft version.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/build_info.h"
#include "core/json.h"

namespace loft {

int run_version(const ParsedArgs& args) {
  const OrderedJson build = build_json();
  if (args.options.json) {
    OrderedJson out = {{"schema", "loft.version/1"}};
    for (const auto& [key, value] : build.items()) out[key] = value;
    fmt::print("{}\n", dump_json(out));
    return 0;
  }
  const auto text = [&](const char* key) { return build[key].get<std::string>(); };
  fmt::print("loft {} ({}{})\ncompiler {}\nbackends {}\n", text("version"), text("commit"),
             build["dirty"].get<bool>() ? ", with changes" : "", text("compiler"), text("backends"));
  return 0;
}

}  // namespace loft
