// apps: loft devices: what is present, and why a backend is not.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/output.h"
#include "backend/cpu/cpu_info.h"
#include "core/json.h"
#include "engine/open_engine.h"

namespace loft {
namespace {

/// A backend that this build lacks.
struct AbsentBackend {
  const char* name;
  const char* why;
};
constexpr AbsentBackend kAbsent[] = {
#ifndef LOFT_CUDA
    {"cuda", "not in this build (LOFT_CUDA is off)"},
#endif
#ifndef LOFT_HIP
    {"hip", "not in this build (LOFT_HIP is off)"},
#endif
};

}  // namespace

int run_devices(const ParsedArgs& args) {
  const std::unique_ptr<Backend> cpu = backend_from_options(args.options);
  const DeviceInfo& d = cpu->device();
  if (args.options.json) {
    OrderedJson devices = OrderedJson::array();
    devices.push_back({{"backend", "cpu"},
                       {"present", true},
                       {"name", d.name},
                       {"isa", isa_level_name(d.isa)},
                       {"threads", d.n_threads},
                       {"l2_bytes", d.l2_bytes},
                       {"l3_bytes", d.l3_bytes},
                       {"memory_bytes", d.memory_bytes}});
    for (const AbsentBackend& b : kAbsent) devices.push_back({{"backend", b.name}, {"present", false}, {"why", b.why}});
    write_data(dump_json(OrderedJson{{"schema", "loft.devices/1"}, {"devices", devices}}) + "\n");
    return 0;
  }
  std::string text =
      fmt::format("cpu   {}: {} threads, L2 {} KiB, L3 {} KiB, {:.1f} GiB of memory\n", d.name, d.n_threads,
                  d.l2_bytes >> 10, d.l3_bytes >> 10, double(d.memory_bytes) / double(1 << 30));
  for (const AbsentBackend& b : kAbsent) text += fmt::format("{:<5} {}\n", b.name, b.why);
  write_data(text);
  return 0;
}

}  // namespace loft
