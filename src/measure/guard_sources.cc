#include "measure/guard_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "measure/guard_child.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") + 1 - first));
}

template <class Number>
std::optional<Number> number_in(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  Number value{};
  const size_t first = std::min(text->find_first_not_of(" \t\n"), text->size());
  const auto [end, error] = std::from_chars(text->data() + first, text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// One pid a line; a driver that hides pids prints words in brackets, as in [N/A], which count as one user each.
GpuPoll parse_smi(const std::string& text) {
  GpuPoll poll;
  int hidden = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    int pid = 0;
    const auto [last, error] = std::from_chars(line.data(), line.data() + line.size(), pid);
    if (error == std::errc() && last == line.data() + line.size()) {
      poll.pids.push_back(pid);
    } else if (line.front() == '[') {
      poll.pids.push_back(--hidden);
    } else {
      poll.fault = fmt::format("nvidia-smi: found '{}', wanted a pid", line.substr(0, 60));
    }
  }
  return poll;
}

std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void cpu_facts(const fs::path& proc_dir, const fs::path& sys_dir, std::vector<GuardFact>& facts) {
  const std::string info = read_kernel_file(proc_dir / "cpuinfo").value_or("");
  double sum = 0;
  int count = 0;
  constexpr std::string_view kKey = "\ncpu MHz";
  for (size_t at = 0; (at = info.find(kKey, at)) != std::string::npos; ++count) {
    at = std::min(info.find(':', at), info.size() - 1) + 1;
    sum += number_in<double>(info.substr(at, 20)).value_or(0);
  }
  if (count > 0) facts.push_back({"cpu_mhz", sum / count});
  uint64_t events = 0;
  bool known = false;
  for (const fs::path& cpu : entries(sys_dir / "devices/system/cpu", "cpu")) {
    const auto n = number_in<uint64_t>(read_kernel_file(cpu / "thermal_throttle/core_throttle_count"));
    known = known || n.has_value();
    events += n.value_or(0);
  }
  if (known) facts.push_back({"cpu_throttle_events", double(events)});
}

// Files of the amdgpu driver: freq1_input in Hz, temp1_input in thousandths of a degree.
void amd_facts(const fs::path& sys_dir, std::vector<GuardFact>& facts) {
  for (const fs::path& card : entries(sys_dir / "class/drm", "card")) {
    for (const fs::path& monitor : entries(card / "device/hwmon", "hwmon")) {
      const std::string name = card.filename().string();
      const auto hertz = number_in<double>(read_kernel_file(monitor / "freq1_input"));
      const auto heat = number_in<double>(read_kernel_file(monitor / "temp1_input"));
      if (hertz) facts.push_back({name + "_mhz", *hertz / 1e6});
      if (heat) facts.push_back({name + "_celsius", *heat / 1e3});
    }
  }
}

std::optional<GpuSource> open_nvidia(const SourceChoice& choice, std::string& fault) {
  std::optional<GpuSource> source;
  if (choice.nvml != "0" && choice.nvml != "off") source = open_nvml(choice.nvml, fault);
  std::string smi_fault;
  if (!source) source = open_nvidia_smi(choice.nvidia_smi, smi_fault);
  if (!source) fault += (fault.empty() ? "" : "; ") + smi_fault;
  return source;
}

}  // namespace

std::optional<GpuSource> open_kfd(const std::string& folder) {
  if (!numeric_entries(folder)) return std::nullopt;
  GpuSource source{.name = "kfd", .device_prefix = "/dev/kfd", .poll = {}, .facts = {}};
  source.poll = [folder] {
    GpuPoll poll;
    if (auto pids = numeric_entries(folder)) {
      poll.pids = *std::move(pids);
    } else {
      poll.fault = folder + ": cannot be listed";
    }
    return poll;
  };
  return source;
}

std::optional<GpuSource> open_nvidia_smi(const std::string& program, std::string& fault) {
  const auto poll = [program] {
    std::string why;
    const auto text = program_output({program, "--query-compute-apps=pid", "--format=csv,noheader"}, why);
    GpuPoll out = text ? parse_smi(*text) : GpuPoll{};
    if (!text) out.fault = why;
    return out;
  };
  fault = poll().fault;
  if (!fault.empty()) return std::nullopt;
  return GpuSource{.name = "nvidia-smi", .device_prefix = "/dev/nvidia", .poll = poll, .facts = {}};
}

std::vector<GpuSource> open_sources(const SourceChoice& choice, std::vector<std::string>& notes) {
  std::vector<GpuSource> out;
  const bool is_nested = hides_processes(choice.proc_dir);
  if (choice.wanted == "auto" || choice.wanted == "rocm") {
    if (auto source = open_kfd(choice.kfd_dir)) {
      if (is_nested && choice.kfd_is_this_kernels) source->rule = PidRule::Nested;
      out.push_back(*std::move(source));
    } else if (choice.wanted == "rocm") {
      fail(Code::BadRequest, "--for rocm: {}: no such folder, wanted the list of the KFD driver", choice.kfd_dir);
    }
  }
  if (choice.wanted == "auto" || choice.wanted == "cuda") {
    std::string fault;
    if (auto source = open_nvidia(choice, fault)) {
      if (is_nested) source->rule = PidRule::Nested;
      out.push_back(*std::move(source));
    } else if (choice.wanted == "cuda") {
      fail(Code::BadRequest, "--for cuda: {}", fault);
    }
  }
  for (const GpuSource& source : out) {
    notes.push_back(fmt::format("source {}: {}", source.name,
                                source.rule == PidRule::Plain
                                    ? "process ids are ours"
                                    : "processes are hidden here, so only their number counts"));
  }
  return out;
}

std::vector<GuardFact> machine_facts(const std::string& proc_dir, const std::string& sys_dir) {
  std::vector<GuardFact> facts;
  cpu_facts(proc_dir, sys_dir, facts);
  amd_facts(sys_dir, facts);
  return facts;
}

}  // namespace loft
