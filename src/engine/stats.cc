// engine: reading /proc/self/status and printing the phases.
#include "engine/stats.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace loft {
namespace {

double mib(size_t bytes) {
  return double(bytes) / double(1 << 20);
}

}  // namespace

ProcessMemory read_process_memory() {
  ProcessMemory memory;
  struct Field {
    const char* name;
    size_t ProcessMemory::*value;
  };
  constexpr Field kFields[] = {{"VmRSS:", &ProcessMemory::resident_bytes},
                               {"VmHWM:", &ProcessMemory::peak_resident_bytes},
                               {"RssFile:", &ProcessMemory::mapped_bytes}};
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const Field& f : kFields) {
      if (line.starts_with(f.name))
        memory.*f.value = size_t(std::strtoull(line.c_str() + std::string_view(f.name).size(), nullptr, 10)) * 1024;
    }
  }
  return memory;
}

std::string describe(const EngineStats& stats) {
  std::string out;
  const auto phase = [&](const char* name, const MemoryPhase& p) {
    fmt::format_to(std::back_inserter(out), "memory {:<8} active {:8.1f} MiB  peak {:8.1f} MiB  cache {:8.1f} MiB\n",
                   name, mib(p.active_bytes), mib(p.peak_bytes), mib(p.cache_bytes));
  };
  phase("load", stats.load);
  phase("prefill", stats.prefill);
  phase("decode", stats.decode);
  const ProcessMemory process = read_process_memory();
  fmt::format_to(std::back_inserter(out), "memory process  resident {:.1f} MiB  peak {:.1f} MiB  files {:.1f} MiB\n",
                 mib(process.resident_bytes), mib(process.peak_resident_bytes), mib(process.mapped_bytes));
  fmt::format_to(std::back_inserter(out), "load {:.1f} ms  steps {}  rows {}  forward {:.1f} ms  sampling {:.1f} ms\n",
                 stats.load_ms, stats.n_steps, stats.n_rows, stats.forward_ms, stats.sample_ms);
  return out;
}

}  // namespace loft
