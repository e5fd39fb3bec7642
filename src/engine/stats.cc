// engine: reading /proc/self/status and printing the phases.
#include "engine/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace loft {
namespace {

double mib(size_t bytes) {
  return double(bytes) / double(1 << 20);
}

struct NamedPhase {
  const char* name;
  MemoryPhase EngineStats::*phase;
};
constexpr NamedPhase kPhases[] = {
    {"load", &EngineStats::load}, {"prefill", &EngineStats::prefill}, {"decode", &EngineStats::decode}};

}  // namespace

ProcessMemory read_process_memory() {
  ProcessMemory memory;
  struct Field {
    const char* name;
    size_t ProcessMemory::*value;
  };
  constexpr Field kFields[] = {{"VmRSS:", &ProcessMemory::resident_bytes},
                               {"VmHWM:", &ProcessMemory::peak_resident_bytes},
                               {"RssFile:", &ProcessMemory::mapped_bytes},
                               {"RssAnon:", &ProcessMemory::anonymous_bytes}};
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const Field& f : kFields) {
      if (line.starts_with(f.name))
        memory.*f.value = size_t(std::strtoull(line.c_str() + std::string_view(f.name).size(), nullptr, 10)) * 1024;
    }
  }
  return memory;
}

MemoryPhase grown(const MemoryPhase& phase, const MemoryStats& now) {
  return {.active_bytes = now.active_bytes,
          .peak_bytes = std::max(phase.peak_bytes, now.peak_bytes),
          .cache_bytes = now.cache_bytes,
          .outside_bytes = phase.outside_bytes};
}

size_t outside_bytes(const ProcessMemory& process, const MemoryStats& backend) {
  // Mapped pages stay once they are read, so at the high water there were about as many as now.
  const size_t anonymous =
      std::max(process.anonymous_bytes,
               process.peak_resident_bytes - std::min(process.peak_resident_bytes, process.mapped_bytes));
  const size_t own = backend.peak_bytes + backend.cache_bytes;
  return anonymous - std::min(anonymous, own);
}

std::string describe(const EngineStats& stats, const MemoryStats& now) {
  std::string out;
  for (const NamedPhase& row : kPhases) {
    const MemoryPhase& p = stats.*row.phase;
    fmt::format_to(std::back_inserter(out),
                   "memory {:<8} active {:8.1f} MiB  peak {:8.1f} MiB  cache {:8.1f} MiB  outside {:8.1f} MiB\n",
                   row.name, mib(p.active_bytes), mib(p.peak_bytes), mib(p.cache_bytes), mib(p.outside_bytes));
  }
  const ProcessMemory process = read_process_memory();
  const MemoryPlan& plan = stats.plan;
  fmt::format_to(std::back_inserter(out),
                 "memory plan     weights {:.1f} MiB + activations {:.1f} MiB + workspace {:.1f} MiB + keys and values "
                 "{:.1f} MiB = {:.1f} MiB\n",
                 mib(plan.weight_bytes), mib(plan.activation_bytes), mib(plan.workspace_bytes), mib(plan.kv_bytes),
                 mib(plan.total_bytes()));
  fmt::format_to(std::back_inserter(out),
                 "memory weights  in mapped files {:.1f} MiB, resident pages of files {:.1f} MiB\n"
                 "memory process  resident {:.1f} MiB  peak {:.1f} MiB\n",
                 mib(now.file_bytes), mib(process.mapped_bytes), mib(process.resident_bytes),
                 mib(process.peak_resident_bytes));
  fmt::format_to(std::back_inserter(out), "load {:.1f} ms  steps {}  rows {}  forward {:.1f} ms  sampling {:.1f} ms\n",
                 stats.load_ms, stats.n_steps, stats.n_rows, stats.forward_ms, stats.sample_ms);
  return out;
}

OrderedJson memory_json(const EngineStats& stats, const MemoryStats& now) {
  const ProcessMemory process = read_process_memory();
  OrderedJson phases = OrderedJson::object();
  size_t peak = 0;
  for (const NamedPhase& row : kPhases) {
    const MemoryPhase& p = stats.*row.phase;
    peak = std::max(peak, p.peak_bytes);
    phases[row.name] = {{"active_bytes", p.active_bytes},
                        {"peak_bytes", p.peak_bytes},
                        {"cache_bytes", p.cache_bytes},
                        {"outside_bytes", p.outside_bytes}};
  }
  return {
      {"active_bytes", now.active_bytes},
      {"peak_bytes", peak},
      {"cache_bytes", now.cache_bytes},
      {"mapped_bytes", process.mapped_bytes},
      {"file_bytes", now.file_bytes},
      {"plan",
       {{"weight_bytes", stats.plan.weight_bytes},
        {"activation_bytes", stats.plan.activation_bytes},
        {"workspace_bytes", stats.plan.workspace_bytes},
        {"kv_bytes", stats.plan.kv_bytes},
        {"total_bytes", stats.plan.total_bytes()}}},
      {"phases", phases},
      {"process", {{"resident_bytes", process.resident_bytes}, {"peak_resident_bytes", process.peak_resident_bytes}}}};
}

}  // namespace loft
