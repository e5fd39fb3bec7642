// backend/cpu: reads /proc, /sys and cpuid, and decides threads and instruction sets from what it found.
#include "backend/cpu/cpu_info.h"

#include <fmt/format.h>
#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "core/error.h"

namespace loft {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.remove_suffix(1);
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  return s;
}

std::optional<int64_t> parse_int(std::string_view s) {
  s = trim(s);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_int(const ReadText& read, const std::string& path) {
  const auto text = read(path);
  return text ? parse_int(*text) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// Folders of this process's cgroup and of those above it, deepest first. controller empty: cgroup v2. A container may
/// see the path of its host, so the mount's root is always the last candidate.
std::vector<std::string> cgroup_folders(const ReadText& read, std::string_view controller) {
  const std::string mount =
      controller.empty() ? std::string("/sys/fs/cgroup") : fmt::format("/sys/fs/cgroup/{}", controller);
  std::string path;
  if (const auto text = read("/proc/self/cgroup")) {
    for (std::string_view line : split(*text, '\n')) {
      const auto fields = split(line, ':');  // hierarchy:controllers:path
      if (fields.size() < 3) continue;
      const auto names = split(fields[1], ',');
      const bool is_ours =
          controller.empty() ? fields[1].empty() : std::find(names.begin(), names.end(), controller) != names.end();
      if (is_ours) path = std::string(trim(line.substr(size_t(fields[2].data() - line.data()))));
    }
  }
  std::vector<std::string> folders;
  while (path.size() > 1 && path.front() == '/') {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

template <class T>
void keep_smaller(std::optional<T>& least, T value) {
  if (!least || value < *least) least = value;
}

}  // namespace

ThreadPlan plan_threads(const ThreadInputs& in) {
  const std::set<int> allowed(in.affinity.begin(), in.affinity.end());
  std::set<std::pair<int, int>> cores;
  for (const LogicalCpu& cpu : in.cpus) {
    if (allowed.empty() || allowed.count(cpu.id)) cores.insert({cpu.package, cpu.core});
  }
  const int n_affinity = int(allowed.size());
  const int n_cores = int(cores.size());
  const std::string found =
      fmt::format("affinity {}, quota {}, cores {}", n_affinity ? std::to_string(n_affinity) : std::string("unknown"),
                  in.quota_cpus ? fmt::format("{:.3g}", *in.quota_cpus) : std::string("none"),
                  n_cores ? std::to_string(n_cores) : std::string("unknown"));
  int n = 0;
  if (in.requested > 0) {
    n = in.requested;
    return {.n_threads = n, .reason = fmt::format("{}: option threads ({})", n, found)};
  }
  for (int limit : {n_affinity, n_cores}) {
    if (limit > 0) n = n == 0 ? limit : std::min(n, limit);
  }
  n = std::max(n, 1);
  if (in.quota_cpus) n = int(std::clamp(std::floor(*in.quota_cpus), 1.0, double(n)));
  return {.n_threads = n, .reason = fmt::format("{}: {}", n, found)};
}

ReadText read_text_of_system() {
  return [](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    if (file.bad()) return std::nullopt;
    return text.str();
  };
}

std::optional<double> cgroup_cpu_quota(const ReadText& read) {
  std::optional<double> least;
  for (const std::string& folder : cgroup_folders(read, "")) {
    const auto text = read(folder + "/cpu.max");  // "150000 100000" or "max 100000"
    if (!text) continue;
    const auto fields = split(trim(*text), ' ');
    const auto quota = parse_int(fields[0]);
    const auto period = fields.size() > 1 ? parse_int(fields[1]) : std::optional<int64_t>(100000);
    if (quota && period && *quota > 0 && *period > 0) keep_smaller(least, double(*quota) / double(*period));
  }
  for (const std::string& folder : cgroup_folders(read, "cpu")) {
    const auto quota = read_int(read, folder + "/cpu.cfs_quota_us");  // -1: none
    const auto period = read_int(read, folder + "/cpu.cfs_period_us");
    if (quota && period && *quota > 0 && *period > 0) keep_smaller(least, double(*quota) / double(*period));
  }
  return least;
}

std::optional<uint64_t> cgroup_memory_limit(const ReadText& read) {
  std::optional<uint64_t> least;
  for (const std::string& folder : cgroup_folders(read, "")) {
    const auto limit = read_int(read, folder + "/memory.max");  // "max": no number, no limit
    if (limit && *limit > 0) keep_smaller(least, uint64_t(*limit));
  }
  for (const std::string& folder : cgroup_folders(read, "memory")) {
    const auto limit = read_int(read, folder + "/memory.limit_in_bytes");
    // v1 writes "no limit" as the largest multiple of a page.
    if (limit && *limit > 0 && *limit < (int64_t(1) << 62)) keep_smaller(least, uint64_t(*limit));
  }
  return least;
}

uint64_t usable_memory(const ReadText& read) {
  uint64_t available = 0;
  if (const auto text = read("/proc/meminfo")) {
    constexpr std::string_view kKey = "MemAvailable:";
    for (std::string_view line : split(*text, '\n')) {
      if (line.substr(0, kKey.size()) != kKey) continue;
      std::string_view value = line.substr(kKey.size());
      if (value.size() > 2 && value.substr(value.size() - 2) == "kB") value.remove_suffix(2);
      if (const auto kib = parse_int(value); kib && *kib > 0) available = uint64_t(*kib) * 1024;
    }
  }
  const auto limit = cgroup_memory_limit(read);
  if (!limit) return available;
  return available ? std::min(available, *limit) : *limit;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (std::string_view part : split(trim(text), ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_int(ends.front());
    const auto last = parse_int(ends.back());
    constexpr int64_t kMost = 1 << 16;
    if (!first || !last || *first < 0 || *last < *first || *last >= kMost) break;
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(int(cpu));
  }
  return cpus;
}

std::vector<LogicalCpu> online_cpus(const ReadText& read) {
  std::vector<LogicalCpu> cpus;
  const auto list = read("/sys/devices/system/cpu/online");
  if (!list) return cpus;
  for (int id : parse_cpu_list(*list)) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology", id);
    const auto package = read_int(read, folder + "/physical_package_id");
    const auto core = read_int(read, folder + "/core_id");
    if (!core) return {};
    cpus.push_back({.id = id, .package = int(package.value_or(0)), .core = int(*core)});
  }
  return cpus;
}

std::vector<int> affinity_of_process() {
  std::vector<int> cpus;
  constexpr int kMostCpus = 8192;
  cpu_set_t* set = CPU_ALLOC(kMostCpus);
  if (!set) return cpus;
  const size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  if (sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(size_t(cpu), bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

int64_t cache_bytes(const ReadText& read, int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}", index);
    const auto found_level = read_int(read, folder + "/level");
    if (!found_level) break;
    const auto type = read(folder + "/type");
    const auto size = read(folder + "/size");  // "1024K", "32M"
    if (*found_level != level || !type || trim(*type) == "Instruction" || !size) continue;
    std::string_view digits = trim(*size);
    int64_t unit = 1;
    if (!digits.empty() && digits.back() == 'K') unit = 1024;
    if (!digits.empty() && digits.back() == 'M') unit = 1024 * 1024;
    if (unit != 1) digits.remove_suffix(1);
    if (const auto n = parse_int(digits); n && *n > 0 && *n < (1 << 24)) return *n * unit;
  }
  return 0;
}

uint32_t detect_isa() {
  uint32_t isa = 0;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return isa;
  const bool has_xgetbv = c & (1u << 27);
  const bool has_fma = c & (1u << 12), has_f16c = c & (1u << 29), has_avx = c & (1u << 28);
  if (!has_xgetbv || !has_avx) return isa;
  // What the operating system saves on a switch: xmm and ymm (bits 1, 2), and for AVX-512 k and zmm (bits 5..7).
  unsigned xcr0 = 0, xcr0_high = 0;
  asm volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  if ((xcr0 & 0x6u) != 0x6u || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return isa;
  const unsigned leaf7_b = b, leaf7_c = c, leaf7_subleaves = a;
  const bool has_avx2 = (leaf7_b & (1u << 5)) && has_fma && has_f16c;
  if (!has_avx2) return isa;
  isa |= kIsaAvx2;
  unsigned leaf7_1_a = 0;
  if (leaf7_subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) leaf7_1_a = a;
  if (leaf7_1_a & (1u << 4)) isa |= kIsaAvxVnni;
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if ((xcr0 & 0xe6u) != 0xe6u || (leaf7_b & kAvx512) != kAvx512) return isa;
  isa |= kIsaAvx512;
  if (leaf7_c & (1u << 11)) isa |= kIsaAvx512Vnni;
  if (leaf7_c & (1u << 1)) isa |= kIsaAvx512Vbmi;
  if (leaf7_1_a & (1u << 5)) isa |= kIsaAvx512Bf16;
#elif defined(__aarch64__)
  if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) isa |= kIsaNeonDotprod;
  if (getauxval(AT_HWCAP2) & HWCAP2_I8MM) isa |= kIsaNeonI8mm;
#endif
  return isa;
}

namespace {

/// Levels of option cpu-isa, lowest first. needs: bits without which the level makes no sense; keeps: bits it lets
/// through.
struct IsaLevel {
  std::string_view name;
  uint32_t needs;
  uint32_t keeps;
};
constexpr uint32_t kUpToVnni512 = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni;
constexpr IsaLevel kIsaLevels[] = {
    {"scalar", 0, 0},
    {"avx2", kIsaAvx2, kIsaAvx2},
    {"avx_vnni", kIsaAvx2 | kIsaAvxVnni, kIsaAvx2 | kIsaAvxVnni},
    {"avx512", kIsaAvx512, kIsaAvx2 | kIsaAvx512},
    {"avx512_vnni", kUpToVnni512, kUpToVnni512},
    {"avx512_vbmi", kUpToVnni512 | kIsaAvx512Vbmi, kUpToVnni512 | kIsaAvx512Vbmi},
    {"avx512_bf16", kUpToVnni512 | kIsaAvx512Bf16, kUpToVnni512 | kIsaAvx512Vbmi | kIsaAvx512Bf16},
    {"neon_dotprod", kIsaNeonDotprod, kIsaNeonDotprod},
    {"neon_i8mm", kIsaNeonDotprod | kIsaNeonI8mm, kIsaNeonDotprod | kIsaNeonI8mm},
};

}  // namespace

std::vector<std::string_view> isa_level_names() {
  std::vector<std::string_view> names;
  for (const IsaLevel& level : kIsaLevels) names.push_back(level.name);
  return names;
}

std::string_view isa_level_name(uint32_t isa) {
  std::string_view best = kIsaLevels[0].name;
  for (const IsaLevel& level : kIsaLevels) {
    if ((isa & level.needs) == level.needs) best = level.name;
  }
  return best;
}

uint32_t clamp_isa(uint32_t present, std::string_view text) {
  if (text == "auto") return present;
  for (const IsaLevel& level : kIsaLevels) {
    if (level.name != text) continue;
    if ((present & level.needs) != level.needs) {
      fail(Code::Unsupported, "cpu-isa {}: this CPU has {}", text, isa_level_name(present));
    }
    return present & level.keeps;
  }
  fail(Code::BadRequest, "cpu-isa '{}': wanted auto or one of {}", text, fmt::join(isa_level_names(), ", "));
}

}  // namespace loft
