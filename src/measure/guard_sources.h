// measure: where the guard learns who uses a GPU. Folders, a library or a program enter; sources to poll leave.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/guard_sample.h"

namespace loft {

/// Clocks, temperatures: told, not judged. "gpu0_sm_mhz" -> 1980.
struct GuardFact {
  std::string name;
  double value = 0;
};

struct GpuSource {
  std::string name;           // kfd, nvml, nvidia-smi
  std::string device_prefix;  // the device files that a user of this GPU has open
  PidRule rule = PidRule::Plain;
  bool knows_throttle = false;
  std::function<GpuPoll()> poll;
  std::function<std::vector<GuardFact>()> facts;  // may be empty
};

/// The kernel's list of AMD compute processes. nullopt when the folder is not there.
std::optional<GpuSource> open_kfd(const std::string& folder);
/// NVML by dlopen, all devices that it shows. nullopt, and why in `fault`, when library, driver or devices are missing.
std::optional<GpuSource> open_nvml(const std::string& library, std::string& fault);
/// nvidia-smi --query-compute-apps. nullopt, and why in `fault`, when a first call fails.
std::optional<GpuSource> open_nvidia_smi(const std::string& program, std::string& fault);

struct SourceChoice {
  std::string wanted;  // auto, rocm, cuda, cpu
  std::string kfd_dir, nvml, nvidia_smi, proc_dir;
  bool kfd_is_this_kernels = true;  // false for a folder given by the user, whose pids are taken as ours
};
/// The GPU sources for --for: none for cpu, and for auto where no GPU is. Notes for the log are appended. Error:
/// BadRequest when a source is asked for by name and is not there.
std::vector<GpuSource> open_sources(const SourceChoice& choice, std::vector<std::string>& notes);

/// Mean clock of the processors, thermal throttle events since boot and the temperatures of AMD GPUs, as far as the
/// kernel tells.
std::vector<GuardFact> machine_facts(const std::string& proc_dir, const std::string& sys_dir);

}  // namespace loft
