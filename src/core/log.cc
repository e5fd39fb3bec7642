#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace loft {
namespace {

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                 spdlog::level::err, spdlog::level::off};

// No colour marks in the pattern: every output, terminal or file, stays plain text.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>("loft", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("loft: %l: %v");
    created->set_level(spdlog::level::warn);
    created->flush_on(spdlog::level::debug);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  logger().set_level(kLevels[int(level)]);
}

LogLevel log_level() {
  for (int i = 0; i < 5; ++i) {
    if (kLevels[i] == logger().level()) return LogLevel(i);
  }
  return LogLevel::Off;
}

void log_line(LogLevel level, const std::string& text) {
  logger().log(kLevels[int(level)], text);
}

}  // namespace loft
