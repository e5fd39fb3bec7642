// measure: one look at the machine: sources, processes and processors read together. What stands in a Reading leaves.
#pragma once
#include <regex.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "measure/guard_cpu.h"
#include "measure/guard_sample.h"
#include "measure/guard_sources.h"

namespace loft {

struct WatchSettings {
  std::string proc_dir, sys_dir;
  std::string compiler_re;  // POSIX extended
  bool judge_cpu = false;
  bool reject_throttle = false;
};

class Watch {
 public:
  /// Errors: BadRequest for a malformed expression, for a judge_cpu without processor times in procfs, and for a
  /// reject_throttle where nothing tells of throttling.
  Watch(const WatchSettings& settings, std::vector<GpuSource> sources);
  /// Forgets the processors' load so far, and from now on counts throttling anew.
  void restart();
  /// `is_last`: at a command's end, when a load over less than five intervals has to do. Error: Device without procfs.
  Reading look(bool is_last);
  std::vector<GuardFact> facts() const;

 private:
  void look_at_gpus(const ProcessTable& table, const std::vector<GpuPoll>& polls, const std::vector<int>& n_own,
                    Reading& out);
  std::vector<int> own_holders(const ProcessTable& table) const;  // one number a source under the nested rule, else 0
  void look_at_compilers(const ProcessTable& table, Reading& out) const;
  void look_at_cpu(const ProcessTable& table, bool is_last, Reading& out);
  void look_at_throttle(Reading& out) const;
  double throttle_events() const;

  WatchSettings settings_;
  std::vector<GpuSource> sources_;
  std::shared_ptr<regex_t> compilers_;
  CpuWindow window_;
  std::set<int> own_seen_;  // every descendant that a look has met
  double throttle_events_before_ = 0;
};

double steady_seconds();

}  // namespace loft
