#include "measure/guard_proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "core/error.h"

namespace loft {
namespace {

// Takes the next whole number of a line of fields between single blanks.
std::optional<uint64_t> take_number(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return value;
}

void skip_fields(std::string_view& text, int count) {
  for (int i = 0; i < count; ++i) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    text.remove_prefix(std::min(text.find(' '), text.size()));
  }
}

std::optional<int> whole_name(std::string_view name) {
  int value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || value <= 0) return std::nullopt;
  return value;
}

std::optional<std::string> link_target(const std::filesystem::path& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  if (error) return std::nullopt;
  return target.string();
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The name stands in parentheses and may itself hold blanks and parentheses, so its end is the last one.
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcessStat out;
  std::string_view head = text.substr(0, open), tail = text.substr(close + 1);
  const auto pid = take_number(head);
  if (!pid || tail.size() < 3 || tail[0] != ' ') return std::nullopt;
  out.pid = int(*pid);
  out.name = text.substr(open + 1, close - open - 1);
  out.state = tail[1];
  tail.remove_prefix(2);
  const auto parent = take_number(tail);
  if (!parent) return std::nullopt;
  out.parent = int(*parent);
  skip_fields(tail, 9);          // pgrp, session, tty, tpgid, flags, minflt, cminflt, majflt, cmajflt
  for (int i = 0; i < 4; ++i) {  // utime, stime, cutime, cstime
    const auto ticks = take_number(tail);
    if (!ticks) return std::nullopt;
    out.ticks += *ticks;
  }
  return out;
}

ProcessTable read_process_table(const std::filesystem::path& proc_dir) {
  const auto pids = numeric_entries(proc_dir);
  if (!pids) fail(Code::Device, "{}: cannot be listed, wanted a procfs", proc_dir.string());
  ProcessTable table;
  for (int pid : *pids) {
    const auto text = read_kernel_file(proc_dir / std::to_string(pid) / "stat");
    if (!text) continue;  // it ended since the folder was listed
    if (auto stat = parse_process_stat(*text)) table[pid] = *std::move(stat);
  }
  return table;
}

Kin kin_of(const ProcessTable& table, int pid, int root) {
  if (!table.count(pid)) return pid == root ? Kin::Own : Kin::Gone;
  // A chain is no longer than the table; more steps mean that pids were reused while it was read.
  for (size_t steps = 0; steps <= table.size(); ++steps) {
    if (pid == root) return Kin::Own;
    if (pid == 0) return Kin::Foreign;
    const auto entry = table.find(pid);
    if (entry == table.end()) return Kin::Unknown;
    pid = entry->second.parent;
  }
  return Kin::Unknown;
}

std::vector<int> descendants(const ProcessTable& table, int root) {
  std::vector<int> out;
  for (const auto& [pid, stat] : table) {
    if (pid != root && kin_of(table, pid, root) == Kin::Own) out.push_back(pid);
  }
  return out;
}

uint64_t tree_ticks(const ProcessTable& table, int root) {
  uint64_t ticks = 0;
  for (const auto& [pid, stat] : table) {
    if (kin_of(table, pid, root) == Kin::Own) ticks += stat.ticks;
  }
  return ticks;
}

std::optional<CpuTimes> parse_cpu_times(std::string_view text) {
  if (!text.starts_with("cpu ")) return std::nullopt;
  text.remove_prefix(4);
  text = text.substr(0, text.find('\n'));
  enum { kUser, kNice, kSystem, kIdle, kIowait, kIrq, kSoftirq, kSteal, kCount };
  uint64_t field[kCount] = {};
  for (uint64_t& value : field) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    value = *number;
  }
  CpuTimes out;
  out.busy = field[kUser] + field[kNice] + field[kSystem] + field[kIrq] + field[kSoftirq];
  out.steal = field[kSteal];
  out.total = out.busy + out.steal + field[kIdle] + field[kIowait];
  if (out.total == 0) return std::nullopt;  // a sandbox that fills the file with zeros
  return out;
}

std::optional<double> parse_pressure(std::string_view text) {
  constexpr std::string_view kStart = "some avg10=";
  const size_t at = text.find(kStart);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kStart.size());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::string> read_kernel_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while (text.size() < (size_t(1) << 20) && (n = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, size_t(n));
  ::close(fd);
  if (n < 0) return std::nullopt;
  return text;
}

std::optional<std::vector<int>> numeric_entries(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (!dir) return std::nullopt;
  std::vector<int> out;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const auto number = whole_name(entry->d_name)) out.push_back(*number);
  }
  if (errno != 0) return std::nullopt;
  std::sort(out.begin(), out.end());
  return out;
}

bool hides_processes(const std::filesystem::path& proc_dir) {
  // The first pid namespace of a kernel always has this inode (PROC_PID_INIT_INO of linux/proc_ns.h).
  const bool is_first = link_target(proc_dir / "self" / "ns" / "pid") == "pid:[4026531836]";
  return !is_first || !read_kernel_file(proc_dir / "1" / "stat");
}

bool holds_device(const std::filesystem::path& proc_dir, int pid, std::string_view prefix) {
  const std::filesystem::path folder = proc_dir / std::to_string(pid) / "fd";
  const auto descriptors = [&] {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
    while (const dirent* entry = dir ? ::readdir(dir.get()) : nullptr) names.emplace_back(entry->d_name);
    return names;
  }();
  return std::any_of(descriptors.begin(), descriptors.end(), [&](const std::string& name) {
    const auto target = link_target(folder / name);
    if (!target || !target->starts_with(prefix)) return false;
    const std::string_view number = std::string_view(*target).substr(prefix.size());
    return number.empty() || number == "0" || whole_name(number).has_value();
  });
}

}  // namespace loft
