// measure: load of the processors over the last samples. Readings of counters enter; how many processors other programs
// kept busy leaves.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "measure/guard_proc.h"

namespace loft {

/// Counters at one moment. own_ticks: time of the guard and all below it, ended processes included.
struct CpuPoint {
  double seconds = 0;  // on a steady clock
  CpuTimes times;
  uint64_t own_ticks = 0;
};

struct CpuLoad {
  double foreign_cores = 0;  // processors that other programs kept busy
  double steal_percent = 0;  // of all processor time
  double seconds = 0;        // over which both are means
};

/// The last samples, at most five intervals.
class CpuWindow {
 public:
  /// ticks_per_second: sysconf(_SC_CLK_TCK).
  explicit CpuWindow(double ticks_per_second) : ticks_per_second_(ticks_per_second) {}
  void clear() { points_.clear(); }
  void add(const CpuPoint& point);
  /// The mean over the window. nullopt before two points, and while the window is too short to tell (`may_be_short`
  /// false: fewer than five intervals; true, at a command's end: under ten ticks, each of which can be off by one).
  std::optional<CpuLoad> load(bool may_be_short) const;

 private:
  double ticks_per_second_;
  std::deque<CpuPoint> points_;
};

}  // namespace loft
