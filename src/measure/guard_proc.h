// measure: what procfs says about processes and processors. Text and folders enter, values leave; nothing is judged
// here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

/// One line of <procfs>/PID/stat (proc(5)).
struct ProcessStat {
  int pid = 0;
  int parent = 0;      // 0: none that this namespace can see
  char state = '?';    // Z: ended, not yet waited for
  std::string name;    // comm, at most 15 bytes
  uint64_t ticks = 0;  // user and system time of the process and of the children it has waited for
};
std::optional<ProcessStat> parse_process_stat(std::string_view text);

using ProcessTable = std::map<int, ProcessStat>;
/// Every process that procfs lists, ended ones not yet waited for too (their time counts still). Error: Device when the
/// folder cannot be read.
ProcessTable read_process_table(const std::filesystem::path& proc_dir);

/// Where a process stands to `root`: root itself or below it; elsewhere; without an entry; or below a process that went
/// away while the table was read, so that nothing can be said.
enum class Kin { Own, Foreign, Gone, Unknown };
Kin kin_of(const ProcessTable& table, int pid, int root);
std::vector<int> descendants(const ProcessTable& table, int root);  ///< without root, rising
uint64_t tree_ticks(const ProcessTable& table, int root);           ///< of root and all below it

/// The line "cpu" of <procfs>/stat: ticks since boot, summed over processors.
struct CpuTimes {
  uint64_t busy = 0;   // user, nice, system, interrupts
  uint64_t steal = 0;  // wanted by this machine, given to another by the host
  uint64_t total = 0;  // busy, steal and idle
};
std::optional<CpuTimes> parse_cpu_times(std::string_view text);
/// The number after "some avg10=" of <procfs>/pressure/cpu, percent.
std::optional<double> parse_pressure(std::string_view text);

/// A file of procfs or sysfs, which has no size to ask for; nullopt when it cannot be read. At most 1 MiB.
std::optional<std::string> read_kernel_file(const std::filesystem::path& path);
/// The names in a folder that are whole numbers above 0, rising; nullopt when it cannot be read.
std::optional<std::vector<int>> numeric_entries(const std::filesystem::path& folder);

/// True when this procfs does not show every process that the kernel or a driver may name: it belongs to a pid
/// namespace below the first, or hides other users' processes (hidepid).
bool hides_processes(const std::filesystem::path& proc_dir);
/// Whether the process has a descriptor of a device named prefix, or prefix and a number ("/dev/nvidia": nvidia0, ..).
bool holds_device(const std::filesystem::path& proc_dir, int pid, std::string_view prefix);

}  // namespace loft
