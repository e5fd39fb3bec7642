#include "measure/host_info.h"

#include <sys/utsname.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "measure/bench_lists.h"

namespace loft {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.erase(0, 1);
  return text;
}

/// The text behind "key ... :" on the first line that begins with `key`; empty: none.
std::string value_of(const std::string& text, std::string_view key) {
  for (const std::string& line : split_text(text, '\n')) {
    const size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) return trimmed(line.substr(colon + 1));
  }
  return {};
}

}  // namespace

std::string cpu_name(const ReadText& read) {
  const std::string name = value_of(read("/proc/cpuinfo").value_or(""), "model name");
  return name.empty() ? "unknown" : name;
}

OrderedJson host_json(const ReadText& read) {
  struct utsname names {};
  uname(&names);
  std::set<std::pair<int, int>> cores;
  for (const LogicalCpu& c : online_cpus(read)) cores.insert({c.package, c.core});
  const std::string total = value_of(read("/proc/meminfo").value_or(""), "MemTotal");
  uint64_t kib = 0;
  std::from_chars(total.data(), total.data() + total.size(), kib);
  const auto governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const auto nodes = read("/sys/devices/system/node/online");
  return {{"name", names.nodename},
          {"kernel", names.release},
          {"cpu", cpu_name(read)},
          {"cores", cores.size()},
          {"ram", kib * 1024},
          {"governor", governor ? OrderedJson(trimmed(*governor)) : OrderedJson(nullptr)},
          {"numa", nodes ? OrderedJson(parse_cpu_list(*nodes).size()) : OrderedJson(nullptr)}};
}

}  // namespace loft
