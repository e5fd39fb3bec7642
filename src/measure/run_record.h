// measure: what every measurement says of itself beside its figures: device, options with their sources, memory.
// Nothing here is a clock, a host name or a process id.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/json.h"
#include "core/options.h"

namespace loft {

/// {"backend": "cpu", "name": "cpu-avx512", "threads": n}
OrderedJson device_json(const DeviceInfo& device);
const char* device_kind_name(DeviceKind kind);  ///< "cpu", "cuda", "hip"
/// {"active_bytes", "peak_bytes", "cache_bytes"}
OrderedJson memory_json(const MemoryStats& memory);

/// An option that is not at its default.
struct SetOption {
  std::string name{};    // "qmm_kernel"
  std::string value{};   // as --print-options shows it
  std::string source{};  // "flag" or "env"
};
/// Those of `scope` in the order of the table, without the ones named in `left_out`.
std::vector<SetOption> set_options(const ParsedArgs& args, uint32_t scope, std::span<const char* const> left_out = {});
/// {"qmm_kernel": {"value": .., "source": ..}, ..}; with is_scrubbed, paths as their last component.
OrderedJson options_json(std::span<const SetOption> options, bool is_scrubbed);

/// The last component of a path, for what is published.
std::string scrubbed(const std::string& path);
/// The same of a value that holds a '/', else the value.
std::string scrubbed_value(const std::string& value);
/// The same of each word of a command line, and of what stands behind the '=' of a flag.
std::vector<std::string> scrubbed_words(const std::vector<std::string>& words);

}  // namespace loft
