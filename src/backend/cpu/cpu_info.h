// backend/cpu: what this machine lets us use: instruction sets, caches, threads and memory. The decisions are pure
// functions over values that were read elsewhere, so tests cover quotas, masks and SMT of machines that are not here.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device_info.h"

namespace loft {

/// One logical CPU of the machine. Equal (package, core) means threads of one physical core.
struct LogicalCpu {
  int id = 0;
  int package = 0;
  int core = 0;
};

struct ThreadInputs {
  int requested = 0;                 // option threads; 0: choose
  std::vector<LogicalCpu> cpus;      // online CPUs; empty: unknown
  std::vector<int> affinity;         // CPUs that this process may run on; empty: unknown
  std::optional<double> quota_cpus;  // cgroup quota in CPUs, as 1.5; nullopt: none
};

struct ThreadPlan {
  int n_threads = 1;
  std::string reason;  // "2: affinity 2, quota none, cores 2"
};

/// min(quota rounded down, allowed CPUs, physical cores of the allowed CPUs), at least 1. A requested count is taken as
/// it is.
ThreadPlan plan_threads(const ThreadInputs& inputs);

/// Reads a text file as a whole; nullopt when it cannot. Tests inject a map.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
ReadText read_text_of_system();

/// CPU quota of this process's cgroup and all cgroups above it (v2 cpu.max, v1 cpu.cfs_quota_us), the smallest; in
/// CPUs.
std::optional<double> cgroup_cpu_quota(const ReadText& read);
/// The smallest memory limit of this cgroup and those above it (v2 memory.max, v1 memory.limit_in_bytes); nullopt:
/// none.
std::optional<uint64_t> cgroup_memory_limit(const ReadText& read);
/// MemAvailable, or the cgroup's limit where that is smaller. 0: unknown.
uint64_t usable_memory(const ReadText& read);
/// Online CPUs with package and core; empty when the kernel does not say.
std::vector<LogicalCpu> online_cpus(const ReadText& read);
/// "0-3,8" as numbers. Text that is no such list gives what was read before it.
std::vector<int> parse_cpu_list(std::string_view text);
std::vector<int> affinity_of_process();
/// Size of the data or unified cache of a level, of CPU 0; 0: unknown.
int64_t cache_bytes(const ReadText& read, int level);

/// CpuIsa bits that the processor and the operating system both support.
uint32_t detect_isa();
/// Option cpu-isa: `text` is "auto" or a level of isa_level_names(). Returns `present` without what lies above the
/// level. Errors: BadRequest for an unknown name (lists them), Unsupported when this CPU lacks what the level needs.
uint32_t clamp_isa(uint32_t present, std::string_view text);
std::vector<std::string_view> isa_level_names();
/// The best level that `isa` covers: "scalar", "avx2", "avx512", ...
std::string_view isa_level_name(uint32_t isa);

}  // namespace loft
