#include "measure/guard_sample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace loft {
namespace {

bool is_alive(const ProcessTable& table, int pid) {
  const auto entry = table.find(pid);
  return entry != table.end() && entry->second.state != 'Z';
}

std::string shown(const ProcessTable& table, int pid) {
  if (pid < 0) return "hidden";
  const auto entry = table.find(pid);
  return fmt::format("{}:{}", pid, entry == table.end() ? "ended" : entry->second.name);
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

GpuUsers users_by_pid(const GpuPoll& poll, const ProcessTable& table, int guard_pid, const std::set<int>& own_seen) {
  GpuUsers out;
  std::set<int> told;
  const auto add = [&](int pid, bool is_foreign) {
    if (!told.insert(pid).second) return;
    out.all.push_back(shown(table, pid));
    if (is_foreign) out.foreign.push_back(shown(table, pid));
  };
  for (int pid : poll.pids) {
    if (pid < 0 || is_alive(table, pid)) add(pid, kin_of(table, pid, guard_pid) != Kin::Own);
  }
  for (int pid : poll.recent_pids) {
    const bool is_own = kin_of(table, pid, guard_pid) == Kin::Own || (!table.count(pid) && own_seen.count(pid));
    if (!is_own) add(pid, true);
  }
  return out;
}

GpuUsers users_by_count(const GpuPoll& poll, int n_own) {
  const std::set<int> pids(poll.pids.begin(), poll.pids.end());
  const int listed = int(pids.size());
  GpuUsers out;
  if (listed > 0) out.all.push_back(fmt::format("{} processes, {} of them ours", listed, std::min(listed, n_own)));
  if (listed > n_own) out.foreign.push_back(fmt::format("{} of {} processes", listed - n_own, listed));
  return out;
}

std::string Judgement::text(const char* gpu_name) const {
  std::string out = fmt::format("{}=[{}] compilers=[{}] cpu=[{}]", gpu_name, fmt::join(gpu, ","),
                                fmt::join(compilers, ","), fmt::join(cpu, ","));
  if (!other.empty()) out += fmt::format(" other=[{}]", fmt::join(other, ","));
  return out;
}

Judgement judge(const Reading& reading, const GuardRules& rules, Phase phase) {
  Judgement out;
  out.gpu = phase == Phase::Before ? reading.gpu.all : reading.gpu.foreign;
  if (phase == Phase::Before && reading.use_percent.value_or(0) > 0) {
    out.gpu.push_back(fmt::format("use {}%", *reading.use_percent));
  }
  out.compilers = reading.compilers;
  if (!rules.allow_own_compilers) append(out.compilers, reading.own_compilers);
  if (rules.judge_cpu && reading.cpu) {
    const CpuLoad& cpu = *reading.cpu;
    if (cpu.foreign_cores > rules.cpu_max) out.cpu.push_back(fmt::format("foreign {:.2f} cores", cpu.foreign_cores));
    if (cpu.steal_percent > rules.steal_max) out.cpu.push_back(fmt::format("steal {:.1f}%", cpu.steal_percent));
  }
  if (rules.judge_cpu && phase == Phase::Before && !reading.cpu) out.cpu.emplace_back("not known yet");
  // Pressure looks back ten seconds and counts the command itself, so it can only speak before a start.
  if (rules.judge_cpu && phase == Phase::Before && reading.pressure.value_or(0) > rules.psi_max) {
    out.cpu.push_back(fmt::format("pressure {:.1f}%", *reading.pressure));
  }
  if (rules.reject_throttle && phase == Phase::During) append(out.other, reading.throttle);
  append(out.other, reading.faults);
  out.is_clean = out.gpu.empty() && out.compilers.empty() && out.cpu.empty() && out.other.empty();
  return out;
}

std::optional<double> IdleStreak::add(double seconds, bool is_idle) {
  if (!is_idle) {
    const std::optional<double> ended = since_ ? std::optional(seconds - *since_) : std::nullopt;
    since_.reset();
    return ended;
  }
  if (!since_) since_ = seconds;
  is_done_ = seconds - *since_ >= need_;
  return std::nullopt;
}

double IdleStreak::left(double seconds) const {
  return since_ ? std::max(0.0, need_ - (seconds - *since_)) : need_;
}

}  // namespace loft
