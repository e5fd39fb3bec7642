// apps: writing to stdout and drawing progress on stderr.
#include "apps/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace loft {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

AnswerWriter::AnswerWriter() : is_terminal_(isatty(STDOUT_FILENO) != 0) {}

void AnswerWriter::write(std::string_view text) {
  if (text.empty()) return;
  at_line_start_ = text.back() == '\n';
  write_data(is_terminal_ ? visible_controls(text) : std::string(text));
}

void AnswerWriter::end_line() {
  if (!at_line_start_) write("\n");
}

// A signal may come while a slow terminal blocks the write; the text still has to get there.
void write_data(std::string_view text) {
  std::fflush(stdout);
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Code::Device, "cannot write to standard output: {}", std::strerror(errno));
    text.remove_prefix(size_t(n));
  }
}

std::string visible_controls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = uint8_t(text[i]);
    if (byte < 0x20 && byte != '\n' && byte != '\t') {
      out += {char(0xe2), char(0x90), char(0x80 + byte)};  // U+2400 + byte
    } else if (byte == 0x7f) {
      out += "\xe2\x90\xa1";  // U+2421
    } else if (byte == 0xc2 && i + 1 < text.size() && uint8_t(text[i + 1]) < 0xa0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

ProgressLine::ProgressLine(bool quiet) : is_shown_(!quiet && isatty(STDERR_FILENO) != 0), started_ms_(now_ms()) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::update(std::string_view label, uint64_t done, uint64_t total, double after_ms) {
  const double now = now_ms();
  if (!is_shown_ || now - started_ms_ < after_ms || now - drawn_ms_ < 100) return;
  drawn_ms_ = now;
  is_drawn_ = true;
  const double share = total > 0 ? double(done) / double(total) : 0;
  fmt::print(stderr, "\r{} {:3.0f} % [{:<30}] {}/{}", label, 100 * share, std::string(size_t(30 * share), '#'), done,
             total);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!is_drawn_) return;
  fmt::print(stderr, "\r{:79}\r", "");
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace loft
