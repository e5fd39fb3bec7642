// measure: judgement of one look at the machine. What the sources read enters; whether a measurement may begin, or has
// been disturbed, leaves with its reasons. No file, clock or process is touched here.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "measure/guard_cpu.h"
#include "measure/guard_proc.h"

namespace loft {

/// What one GPU source saw.
struct GpuPoll {
  std::vector<int> pids;              // processes that hold the GPU now; below 0: one whose pid the driver hides
  std::vector<int> recent_pids;       // processes that used it since the last poll, ended ones too
  std::optional<int> use_percent;     // the busiest device's use, where the source knows it
  std::vector<std::string> throttle;  // reasons for which clocks are held down, "gpu0:hw_thermal"
  std::string fault;                  // why the source could not be read; empty when it was
};

/// Whether a source's pids are ours. Nested: they belong to another namespace, so only their number says something.
enum class PidRule { Plain, Nested };

/// Who is on a GPU, as texts "pid:comm".
struct GpuUsers {
  std::vector<std::string> all;      // everyone alive, the guard's own descendants too
  std::vector<std::string> foreign;  // those that are no descendants
};

/// Plain rule. A pid without an entry is left out: the kernel's list lingers after a process. A recent pid without one
/// has used the GPU for a moment and gone; it is foreign unless `own_seen` knows it as a descendant.
GpuUsers users_by_pid(const GpuPoll& poll, const ProcessTable& table, int guard_pid, const std::set<int>& own_seen);
/// Nested rule. n_own: descendants of the guard that have the device open.
GpuUsers users_by_count(const GpuPoll& poll, int n_own);

/// One look at the machine.
struct Reading {
  GpuUsers gpu;
  std::optional<int> use_percent;      // only of sources under the nested rule, where it tells of users unseen
  std::vector<std::string> compilers;  // "pid:comm", not below the command
  std::vector<std::string> own_compilers;
  std::optional<CpuLoad> cpu;
  std::optional<double> pressure;  // percent, avg10
  std::vector<std::string> throttle;
  std::vector<std::string> faults;  // sources that could not be read
};

struct GuardRules {
  bool judge_cpu = false;
  double cpu_max = 0.25;  // processors
  double steal_max = 5;   // percent
  double psi_max = 10;    // percent, before a start only
  bool allow_own_compilers = false;
  bool reject_throttle = false;
};

/// Before: the machine must be idle. During: the command's own use is no disturbance.
enum class Phase { Before, During };

struct Judgement {
  bool is_clean = true;
  std::vector<std::string> gpu, compilers, cpu, other;  // what spoke against it
  /// "gpu=[..] compilers=[..] cpu=[..]", further words only where there are any. `gpu_name`: gpu or foreign_gpu.
  std::string text(const char* gpu_name) const;
};
/// A source that could not be read speaks against, and so does, before a start, a load of the processors that is wanted
/// and not known yet: what cannot be seen is not idle.
Judgement judge(const Reading& reading, const GuardRules& rules, Phase phase);

/// Idle samples in a row.
class IdleStreak {
 public:
  explicit IdleStreak(double need_seconds) : need_(need_seconds) {}
  /// One sample, taken at `seconds` of a steady clock. Returns the length of the streak that a busy sample ended.
  std::optional<double> add(double seconds, bool is_idle);
  bool is_done() const { return is_done_; }
  /// Seconds of further idle samples that are wanted from `seconds` on.
  double left(double seconds) const;

 private:
  double need_;
  std::optional<double> since_;
  bool is_done_ = false;
};

}  // namespace loft
