// core: the only door to spdlog. One line an event, to stderr; stdout belongs to answers and data.
#pragma once
#include <fmt/format.h>

#include <string>

namespace loft {

enum class LogLevel { Debug, Info, Warn, Error, Off };

void set_log_level(LogLevel level);  ///< default Warn
LogLevel log_level();
void log_line(LogLevel level, const std::string& text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::Debug) log_line(LogLevel::Debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::Info) log_line(LogLevel::Info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::Warn) log_line(LogLevel::Warn, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace loft
