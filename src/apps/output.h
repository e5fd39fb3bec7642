// apps: what is printed. Answers go to stdout as they come, notes to stderr; a model cannot drive the terminal.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace loft {

/// Writes to stdout and flushes. On a terminal, control characters are shown as signs instead of acting. Error: Device
/// when the text cannot be written (disk full, reader gone).
class AnswerWriter {
 public:
  AnswerWriter();
  void write(std::string_view text);
  /// A newline, when the text so far does not end with one.
  void end_line();

 private:
  bool is_terminal_;
  bool at_line_start_ = true;
};

/// Whole text to stdout, unchanged.
void write_data(std::string_view text);

/// Control characters of UTF-8 text, but newline and tab, as visible signs: C0 and DEL as U+2400 and up, C1 as U+FFFD.
std::string visible_controls(std::string_view text);

/// A line of progress on stderr that is drawn over itself; nothing when stderr is no terminal or quiet is set.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  /// Draws "label done/total", at most ten times a second, and only from `after_ms` on.
  void update(std::string_view label, uint64_t done, uint64_t total, double after_ms = 0);
  void clear();

 private:
  bool is_shown_;
  bool is_drawn_ = false;
  double started_ms_;
  double drawn_ms_ = 0;
};

}  // namespace loft
