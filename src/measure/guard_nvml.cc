// measure: the NVIDIA source over NVML, found by dlopen so that a build needs no CUDA. The few declarations stand here,
// after the public API reference of NVML (structures of the _v2 and _v3 calls).
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "measure/guard_sources.h"

namespace loft {
namespace {

using Device = void*;
enum : int { kSuccess = 0, kNotSupported = 3, kNoPermission = 4, kNotFound = 6, kInsufficientSize = 7 };

struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct ProcessUse {  // percent of the time since the last sample of this process
  unsigned pid;
  unsigned long long time_us;  // since the epoch
  unsigned sm, memory, encoder, decoder;
};
struct Use {
  unsigned gpu, memory;  // percent
};

struct ThrottleBit {
  unsigned long long bit;
  const char* name;
};
// Reasons that slow a kernel down. Idle clocks, clocks set by a user and display clocks are none.
constexpr ThrottleBit kThrottleBits[] = {
    {0x04, "power_cap"}, {0x08, "hw_slowdown"}, {0x20, "sw_thermal"}, {0x40, "hw_thermal"}, {0x80, "power_brake"},
};

// Functions of the library; those after get_handle may be missing in old drivers.
struct Nvml {
  int (*init)() = nullptr;
  int (*get_count)(unsigned*) = nullptr;
  int (*get_handle)(unsigned, Device*) = nullptr;
  int (*compute_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  int (*graphics_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  int (*process_use)(Device, ProcessUse*, unsigned*, unsigned long long) = nullptr;
  int (*use)(Device, Use*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  std::vector<Device> devices;
  std::vector<unsigned long long> last_seen_us;  // one a device
};

template <class Function>
bool take(void* library, std::initializer_list<const char*> names, Function& function) {
  for (const char* name : names) {
    if (void* symbol = dlsym(library, name)) {
      function = reinterpret_cast<Function>(symbol);
      return true;
    }
  }
  return false;
}

bool take_all(void* library, Nvml& n) {
  take(library, {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"},
       n.graphics_processes);
  take(library, {"nvmlDeviceGetProcessUtilization"}, n.process_use);
  take(library, {"nvmlDeviceGetClockInfo"}, n.clock);
  take(library, {"nvmlDeviceGetTemperature"}, n.temperature);
  take(library, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}, n.throttle);
  return take(library, {"nvmlInit_v2"}, n.init) && take(library, {"nvmlDeviceGetCount_v2"}, n.get_count) &&
         take(library, {"nvmlDeviceGetHandleByIndex_v2"}, n.get_handle) &&
         take(library, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
              n.compute_processes) &&
         take(library, {"nvmlDeviceGetUtilizationRates"}, n.use);
}

unsigned long long now_us() {
  using namespace std::chrono;
  return (unsigned long long)duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

// The driver's descriptors must not pass to the command: the nested rule would take it for a user of the GPU.
void close_devices_on_exec() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (!error && target.string().starts_with("/dev/nvidia")) {
      fcntl(std::stoi(entry.path().filename().string()), F_SETFD, FD_CLOEXEC);
    }
  }
}

// Calls a function that fills a list whose length is not known before.
template <class Item, class Call>
int fill(std::vector<Item>& items, Call call) {
  unsigned count = 64;
  int status = kInsufficientSize;
  for (int attempt = 0; attempt < 4 && status == kInsufficientSize; ++attempt) {
    items.resize(count);
    status = call(items.data(), &count);
    if (status == kInsufficientSize) count = std::max(count, unsigned(items.size())) * 2;
  }
  items.resize(status == kSuccess ? count : 0);
  return status;
}

void poll_processes(const Nvml& n, size_t i, GpuPoll& poll) {
  for (const auto list : {n.compute_processes, n.graphics_processes}) {
    if (!list) continue;
    std::vector<ProcessInfo> items;
    const int status = fill(items, [&](ProcessInfo* out, unsigned* count) { return list(n.devices[i], count, out); });
    if (status != kSuccess && status != kNotSupported)
      poll.fault = fmt::format("nvml: status {} for processes", status);
    for (const ProcessInfo& item : items) poll.pids.push_back(int(item.pid));
  }
}

// Processes with use since the last poll; this shows jobs shorter than the interval. Some machines do not allow it.
void poll_recent(Nvml& n, size_t i, GpuPoll& poll) {
  if (!n.process_use) return;
  std::vector<ProcessUse> items;
  const unsigned long long since = n.last_seen_us[i];
  const int status =
      fill(items, [&](ProcessUse* out, unsigned* count) { return n.process_use(n.devices[i], out, count, since); });
  if (status != kSuccess && status != kNotFound && status != kNotSupported && status != kNoPermission) {
    poll.fault = fmt::format("nvml: status {} for use by process", status);
  }
  for (const ProcessUse& item : items) {
    if (item.time_us <= since || item.pid == 0) continue;
    n.last_seen_us[i] = std::max(n.last_seen_us[i], item.time_us);
    if (item.sm + item.memory + item.encoder + item.decoder > 0) poll.recent_pids.push_back(int(item.pid));
  }
}

GpuPoll poll_all(Nvml& n) {
  GpuPoll poll;
  for (size_t i = 0; i < n.devices.size(); ++i) {
    poll_processes(n, i, poll);
    poll_recent(n, i, poll);
    Use use{};
    const int status = n.use(n.devices[i], &use);
    if (status == kSuccess) poll.use_percent = std::max(poll.use_percent.value_or(0), int(use.gpu));
    if (status != kSuccess && status != kNotSupported) poll.fault = fmt::format("nvml: status {} for use", status);
    unsigned long long reasons = 0;
    if (n.throttle && n.throttle(n.devices[i], &reasons) == kSuccess) {
      for (const ThrottleBit& row : kThrottleBits) {
        if (reasons & row.bit) poll.throttle.push_back(fmt::format("gpu{}:{}", i, row.name));
      }
    }
  }
  return poll;
}

std::vector<GuardFact> facts_of(const Nvml& n) {
  struct Row {
    const char* name;
    bool is_clock;
    int which;  // nvmlClockType_t: 0 graphics, 1 SM, 2 memory; nvmlTemperatureSensors_t: 0 GPU
  };
  constexpr Row kRows[] = {{"sm_mhz", true, 1}, {"memory_mhz", true, 2}, {"celsius", false, 0}};
  std::vector<GuardFact> facts;
  for (size_t i = 0; i < n.devices.size(); ++i) {
    for (const Row& row : kRows) {
      const auto call = row.is_clock ? n.clock : n.temperature;
      unsigned value = 0;
      if (call && call(n.devices[i], row.which, &value) == kSuccess) {
        facts.push_back({fmt::format("gpu{}_{}", i, row.name), double(value)});
      }
    }
  }
  return facts;
}

}  // namespace

std::optional<GpuSource> open_nvml(const std::string& library, std::string& fault) {
  // Stays loaded for the life of the process: the driver keeps state as long as somebody has it open.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fault = fmt::format("nvml: {}", dlerror());
    return std::nullopt;
  }
  const auto n = std::make_shared<Nvml>();
  if (!take_all(handle, *n)) {
    fault = fmt::format("nvml: {} lacks a function that is needed", library);
    return std::nullopt;
  }
  unsigned count = 0;
  int status = n->init();
  if (status == kSuccess) status = n->get_count(&count);
  for (unsigned i = 0; i < count && status == kSuccess; ++i) {
    Device device = nullptr;
    status = n->get_handle(i, &device);
    n->devices.push_back(device);
  }
  close_devices_on_exec();
  if (status != kSuccess || n->devices.empty()) {
    fault = fmt::format("nvml: status {}, {} devices", status, n->devices.size());
    return std::nullopt;
  }
  n->last_seen_us.assign(n->devices.size(), now_us());
  GpuSource source{.name = "nvml", .device_prefix = "/dev/nvidia", .poll = {}, .facts = {}};
  source.knows_throttle = n->throttle != nullptr;
  source.poll = [n] { return poll_all(*n); };
  source.facts = [n] { return facts_of(*n); };
  return source;
}

}  // namespace loft
