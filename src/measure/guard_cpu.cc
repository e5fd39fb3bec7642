#include "measure/guard_cpu.h"

#include <algorithm>

namespace loft {
namespace {

constexpr size_t kIntervals = 5;
constexpr double kLeastTicks = 10;

double rise(uint64_t before, uint64_t after) {
  return after > before ? double(after - before) : 0;
}

}  // namespace

void CpuWindow::add(const CpuPoint& point) {
  points_.push_back(point);
  if (points_.size() > kIntervals + 1) points_.pop_front();
}

std::optional<CpuLoad> CpuWindow::load(bool may_be_short) const {
  if (points_.size() < 2) return std::nullopt;
  const CpuPoint &first = points_.front(), &last = points_.back();
  CpuLoad out;
  out.seconds = last.seconds - first.seconds;
  const bool is_full = points_.size() == kIntervals + 1;
  if (!is_full && !(may_be_short && out.seconds * ticks_per_second_ >= kLeastTicks)) return std::nullopt;
  if (out.seconds <= 0) return std::nullopt;
  const double busy = rise(first.times.busy, last.times.busy);
  // A process whose parent ignores SIGCHLD takes its time with it when it ends, so own time can seem to fall.
  const double own = rise(first.own_ticks, last.own_ticks);
  out.foreign_cores = std::max(0.0, busy - own) / ticks_per_second_ / out.seconds;
  const double total = rise(first.times.total, last.times.total);
  out.steal_percent = total > 0 ? 100 * rise(first.times.steal, last.times.steal) / total : 0;
  return out;
}

}  // namespace loft
