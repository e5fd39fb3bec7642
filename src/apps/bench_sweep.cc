// apps: loft bench over many models: which ones, in which order, and the files of --out-dir.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/bench_apps.h"
#include "core/error.h"
#include "core/file_map.h"
#include "engine/open_engine.h"
#include "measure/bench_formats.h"
#include "measure/bench_lists.h"
#include "measure/run_record.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

/// Every folder of `models_dir` with a config.json: by name, those of --last behind the others, in its order.
std::vector<std::string> all_models(const Options& o) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(o.models_dir, error)) {
    if (fs::exists(entry.path() / "config.json")) found.push_back(entry.path().filename().string());
  }
  if (found.empty()) fail(Code::NotFound, "{}: holds no folder with a config.json", o.models_dir);
  std::sort(found.begin(), found.end());
  for (const std::string& text : o.last) {
    for (const std::string& name : split_text(text, ',')) {
      const auto at = std::find(found.begin(), found.end(), name);
      if (at == found.end()) fail(Code::BadRequest, "--last: {} holds no model '{}'", o.models_dir, name);
      std::rotate(at, at + 1, found.end());
    }
  }
  for (std::string& name : found) name = (fs::path(o.models_dir) / name).string();
  return found;
}

// What may stand in the name of a file anywhere.
std::string file_word(std::string text) {
  for (char& c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    if (!is_plain) c = '-';
  }
  return text;
}

}  // namespace

std::vector<std::string> models_of(const ParsedArgs& args) {
  std::vector<std::string> asked = args.positionals, models;
  asked.insert(asked.end(), args.options.model.begin(), args.options.model.end());
  bool is_all = false;
  for (const std::string& name : asked) {
    is_all |= name == "all";
    const std::vector<std::string> named = name == "all" ? all_models(args.options) : std::vector{name};
    models.insert(models.end(), named.begin(), named.end());
  }
  if (models.empty()) fail(Code::BadRequest, "MODEL is missing; see loft bench --help");
  if (!is_all && !args.options.last.empty()) fail(Code::BadRequest, "--last is given without -m all");
  if (args.options.label && models.size() > 1)
    fail(Code::BadRequest, "--label names one model, {} are given", models.size());
  return models;
}

SweepFiles::SweepFiles(const Options& o, const std::vector<std::string>& models) {
  if (o.raw_dir) fs::create_directories(*o.raw_dir);
  if (!o.bench_out_dir) {
    if (o.suffix) fail(Code::BadRequest, "--suffix is given without --out-dir");
    return;
  }
  const DeviceInfo device = backend_from_options(o)->device();
  const std::string backend = device_kind_name(device.kind);
  const std::string own = device.name.starts_with(backend + "-") ? device.name.substr(backend.size() + 1) : device.name;
  std::string name = fmt::format("{}_{}_{:%Y-%m-%d}", backend, file_word(own), fmt::gmtime(std::time(nullptr)));
  if (models.size() == 1) name += "_single_" + file_word(o.label.value_or(scrubbed(models[0])));
  if (o.suffix) name += "_" + file_word(*o.suffix);
  base_ = (fs::path(*o.bench_out_dir) / name).string();
  for (const char* end : {".json", ".csv"}) {
    if (fs::exists(base_ + end))
      fail(Code::BadRequest, "{}{}: exists; --suffix gives this run a name of its own", base_, end);
  }
  fs::create_directories(*o.bench_out_dir);
}

void SweepFiles::write(std::span<const OrderedJson> rows) const {
  if (base_.empty()) return;
  write_text_file(base_ + ".json", json_text(rows));
  write_text_file(base_ + ".csv", csv_text(rows));
}

std::string log_file(const Options& o, const BenchGroup& group, size_t n) {
  if (!o.raw_dir) return {};
  return (fs::path(*o.raw_dir) / fmt::format("{:03}_{}.log", n, file_word(scrubbed(group.model)))).string();
}

}  // namespace loft
