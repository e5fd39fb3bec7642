#include "measure/run_record.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace loft {

const char* device_kind_name(DeviceKind kind) {
  constexpr const char* kNames[] = {"cpu", "cuda", "hip"};
  return kNames[int(kind)];
}

OrderedJson device_json(const DeviceInfo& device) {
  return {{"backend", device_kind_name(device.kind)}, {"name", device.name}, {"threads", device.n_threads}};
}

OrderedJson memory_json(const MemoryStats& memory) {
  return {
      {"active_bytes", memory.active_bytes}, {"peak_bytes", memory.peak_bytes}, {"cache_bytes", memory.cache_bytes}};
}

std::vector<SetOption> set_options(const ParsedArgs& args, uint32_t scope, std::span<const char* const> left_out) {
  std::vector<SetOption> out;
  const auto rows = option_rows();
  const Options defaults;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string_view name = rows[i].name;
    const bool is_out = std::any_of(left_out.begin(), left_out.end(), [&](const char* other) { return name == other; });
    if (is_out || (rows[i].where & scope) == 0 || args.sources[i] == Source::Default) continue;
    std::string value = rows[i].show(args.options);
    if (value == rows[i].show(defaults)) continue;
    const char* source = args.sources[i] == Source::Flag ? "flag" : "env";
    out.push_back({.name = rows[i].name, .value = std::move(value), .source = source});
  }
  return out;
}

OrderedJson options_json(std::span<const SetOption> options, bool is_scrubbed) {
  OrderedJson out = OrderedJson::object();
  for (const SetOption& o : options) {
    out[o.name] = {{"value", is_scrubbed ? scrubbed_value(o.value) : o.value}, {"source", o.source}};
  }
  return out;
}

std::string scrubbed(const std::string& path) {
  const std::filesystem::path p = std::filesystem::path(path).lexically_normal();
  return p.has_filename() ? p.filename().string() : p.parent_path().filename().string();
}

std::string scrubbed_value(const std::string& value) {
  return value.find('/') == std::string::npos ? value : scrubbed(value);
}

std::vector<std::string> scrubbed_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const size_t begin = word.starts_with("--") && equals != std::string::npos ? equals + 1 : 0;
    out.push_back(word.substr(0, begin) + scrubbed_value(word.substr(begin)));
  }
  return out;
}

}  // namespace loft
