#include "measure/bench_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "core/error.h"

namespace loft {

Child::Child(const std::vector<std::string>& argv, const std::string& error_file) {
  const int error = error_file.empty() ? -1 : open(error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (error < 0 && !error_file.empty()) fail(Code::Device, "{}: {}", error_file, std::strerror(errno));
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
    fail(Code::Device, "no pipe for {}: {}", argv[0], std::strerror(errno));
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail(Code::Device, "no process for {}: {}", argv[0], std::strerror(errno));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    if (error >= 0) dup2(error, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  if (error >= 0) close(error);
  in_ = in[1];
  out_ = out[0];
}

Child::~Child() {
  kill();
  wait();
}

Child::Read Child::read_line(std::string& line, double seconds, const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (true) {
    const size_t newline = buffer_.find('\n');
    if (newline != std::string::npos) {
      line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      return Read::Line;
    }
    if (stop && stop()) return Read::Stopped;
    const double left_ms = std::chrono::duration<double, std::milli>(end - Clock::now()).count();
    if (left_ms <= 0) return Read::Timeout;
    pollfd p{out_, POLLIN, 0};
    // Short waits, so that a signal that came just before the wait is seen soon.
    if (poll(&p, 1, int(std::min(left_ms, 100.0)) + 1) <= 0) continue;
    std::array<char, 65536> bytes{};
    const ssize_t n = read(out_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Read::End;
    buffer_.append(bytes.data(), size_t(n));
  }
}

void Child::send(std::string_view text) {
  // A reader that is gone shows at the next read_line; it must not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  while (!text.empty()) {
    const ssize_t n = write(in_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(size_t(n));
  }
}

void Child::kill() {
  if (status_ < 0 && pid_ > 0) ::kill(pid_, SIGKILL);
}

void Child::end(double patience_seconds) {
  if (status_ >= 0 || pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  for (double waited = 0; waited < patience_seconds; waited += 0.05) {
    siginfo_t info{};
    if (waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) break;
    usleep(50000);
  }
  kill();
  wait();
}

int Child::wait() {
  if (status_ >= 0) return status_;
  close(in_);
  close(out_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

}  // namespace loft
