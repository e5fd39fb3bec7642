// apps: loft bench --guard: each measuring process runs under loft guard, the same program.
#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/bench_apps.h"
#include "core/error.h"
#include "core/file_map.h"
#include "measure/bench_guard.h"

namespace loft {
namespace {

constexpr size_t kMaxRecordBytes = size_t(256) << 20;

}  // namespace

bool is_guard_option(const OptionRow& row) {
  return (row.where & kGuard) != 0 && (row.where & kAll) != kAll && std::string_view(row.name) != "json_file";
}

void check_guard(const ParsedArgs& args) {
  const auto guard_flags = given_flags(args, is_guard_option);
  if (!args.options.guard && !guard_flags.empty())
    fail(Code::BadRequest, "{} is given without --guard", guard_flags[0].substr(0, guard_flags[0].find('=')));
  if (args.options.guard && args.options.resident)
    fail(Code::BadRequest, "--guard, --resident: processes that stay loaded cannot be run again");
}

BenchGuard::BenchGuard(const ParsedArgs& args) : args_(args) {
  if (args.options.raw_dir) {
    folder_ = *args.options.raw_dir;
    return;
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "loft-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) fail(Code::Device, "{}: {}", pattern, std::strerror(errno));
  folder_ = pattern;
  is_temporary_ = true;
}

BenchGuard::~BenchGuard() {
  std::error_code ignored;
  if (is_temporary_) std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> BenchGuard::around(const std::vector<std::string>& command, bool only_clean) {
  record_ = folder_ / fmt::format("{:04}.guard.json", ++n_);
  std::error_code ignored;
  std::filesystem::remove(record_, ignored);  // of an earlier run in the same folder
  std::vector<std::string> argv = {own_program(), "guard", "--json-file=" + record_.string()};
  const auto flags = given_flags(args_, is_guard_option);
  argv.insert(argv.end(), flags.begin(), flags.end());
  if (args_.options.raw_dir) argv.push_back("--log=" + (folder_ / "guard.log").string());
  if (args_.options.quiet) argv.emplace_back("--quiet");
  if (only_clean) argv.emplace_back("--only-clean");
  argv.emplace_back("--");
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

OrderedJson BenchGuard::summary() const {
  if (!std::filesystem::exists(record_)) return nullptr;
  return guard_summary(read_text_file(record_, kMaxRecordBytes));
}

}  // namespace loft
