// measure: a process that is started, answers by lines, and is watched: a benchmark's crash or hang costs one row.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

class Child {
 public:
  enum class Read : uint8_t { Line, End, Timeout, Stopped };

  /// Starts argv[0] with the rest as arguments; stdin and stdout are pipes, stderr is ours or is appended to
  /// `error_file`. It is killed when this
  /// process dies. Error: Device when no process can be made. A program that does not exist ends with status 127.
  explicit Child(const std::vector<std::string>& argv, const std::string& error_file = {});
  /// Kills the process if it still runs, and waits for it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line of stdout without its newline. Timeout after `seconds` without one; Stopped when `stop` says so.
  Read read_line(std::string& line, double seconds, const std::function<bool()>& stop = {});
  /// Writes to stdin; nothing happens when nobody reads it.
  void send(std::string_view text);
  void kill();
  /// TERM, for a process that has others to end, and KILL when it is still there after `patience_seconds`.
  void end(double patience_seconds);
  /// Exit status; 128 + signal when a signal ended it.
  int wait();

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  int status_ = -1;
  std::string buffer_;
};

}  // namespace loft
