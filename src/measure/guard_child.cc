#include "measure/guard_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>

#include "core/error.h"
#include "measure/guard_proc.h"

namespace loft {
namespace {

using Clock = std::chrono::steady_clock;

sigset_t mask_before;
struct sigaction pipe_before;
bool is_blocked = false;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

sigset_t guard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// Only calls that are safe after fork.
[[noreturn]] void execute(const char* path, char* const* argv, char* const* environment) {
  if (is_blocked) {
    sigaction(SIGPIPE, &pipe_before, nullptr);
    sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  }
  execve(path, argv, environment);
  if (errno == ENOEXEC) {  // a script without #!, which a shell runs by itself
    std::array<char*, 512> words = {const_cast<char*>("sh"), const_cast<char*>(path)};
    for (size_t i = 1; i + 2 < words.size() && argv[i]; ++i) words[i + 1] = argv[i];
    execve("/bin/sh", words.data(), environment);
  }
  _exit(errno == ENOENT ? 127 : 126);
}

int status_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> out;
  std::set<std::string> changed;
  for (const std::string& change : changes) changed.insert(change.substr(0, change.find('=')));
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!changed.count(text.substr(0, text.find('=')))) out.push_back(text);
  }
  out.insert(out.end(), changes.begin(), changes.end());
  return out;
}

// Reads until end of file or `seconds` have passed.
bool read_all(int fd, double seconds, std::string& text) {
  const auto start = Clock::now();
  std::array<char, 4096> buffer{};
  for (double left = seconds; left > 0; left = seconds - seconds_since(start)) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, int(left * 1000) + 1) <= 0) continue;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n == 0) return true;
    if (n > 0) text.append(buffer.data(), size_t(n));
    if (n < 0 && errno != EINTR) return false;
  }
  return false;
}

}  // namespace

FoundProgram find_program(const std::string& command, const std::vector<std::string>& environment) {
  const auto status_at = [](const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return errno == EACCES ? 126 : 127;
    return S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0 ? 0 : 126;
  };
  if (command.find('/') != std::string::npos) return {.path = command, .status = status_at(command)};
  std::string folders = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) folders = entry.substr(5);
  }
  FoundProgram best{.path = command, .status = 127};
  for (size_t begin = 0; !command.empty() && begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = begin == end ? "." : folders.substr(begin, end - begin);
    begin = end + 1;
    const FoundProgram here{.path = folder + "/" + command, .status = status_at(folder + "/" + command)};
    if (here.status == 0) return here;
    if (here.status == 126) best = here;
  }
  return best;
}

void block_guard_signals() {
  const sigset_t set = guard_signals();
  // An inherited ignore of CHLD would lose the status of every child. An ignored HUP (nohup) stays ignored.
  std::signal(SIGCHLD, SIG_DFL);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before);
  sigprocmask(SIG_BLOCK, &set, &mask_before);
  is_blocked = true;
}

int wait_for_event(double seconds) {
  const sigset_t set = guard_signals();
  const auto start = Clock::now();
  for (double left = std::max(0.0, seconds);; left = seconds - seconds_since(start)) {
    if (left < 0) return 0;
    timespec limit{};
    limit.tv_sec = time_t(left);
    limit.tv_nsec = long((left - double(limit.tv_sec)) * 1e9);
    const int signal = sigtimedwait(&set, nullptr, &limit);
    if (signal == SIGCHLD || (signal < 0 && errno == EAGAIN)) return 0;
    if (signal > 0) return signal;
  }
}

void adopt_orphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail(Code::Device, "subreaper: {}", std::strerror(errno));
}

int start_program(const StartRequest& request) {
  const std::vector<std::string> environment = merged_environment(request.environment);
  const std::vector<char*> argv = pointers(request.words), env = pointers(environment);
  const pid_t child = fork();
  if (child < 0) fail(Code::Device, "{}: cannot be started: {}", request.path, std::strerror(errno));
  if (child == 0) {
    if (request.stdin_fd >= 0) dup2(request.stdin_fd, STDIN_FILENO);
    if (request.stdout_fd >= 0) dup2(request.stdout_fd, STDOUT_FILENO);
    execute(request.path.c_str(), argv.data(), env.data());
  }
  return child;
}

std::optional<int> reap(int pid) {
  std::optional<int> out;
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended == pid) out = status_of(status);
  }
  return out;
}

void end_descendants(double patience_seconds) {
  const auto start = Clock::now();
  std::set<int> told;
  bool is_patient = true;
  for (;;) {
    reap(-1);
    const std::vector<int> alive = descendants(read_process_table("/proc"), getpid());
    if (alive.empty()) return;
    is_patient = is_patient && seconds_since(start) < patience_seconds;
    for (int pid : alive) {
      if (!is_patient) {
        kill(pid, SIGKILL);
      } else if (told.insert(pid).second) {
        kill(pid, SIGTERM);
      }
    }
    if (wait_for_event(0.02) != 0) is_patient = false;
  }
}

std::optional<std::string> program_output(const std::vector<std::string>& command, std::string& fault) {
  constexpr double kLimitSeconds = 10;
  const FoundProgram program = find_program(command[0], merged_environment({}));
  if (program.status != 0) {
    fault = fmt::format("{}: not found, or not executable", command[0]);
    return std::nullopt;
  }
  std::array<int, 2> ends{};
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || pipe2(ends.data(), O_CLOEXEC) != 0) {
    fault = fmt::format("{}: {}", command[0], std::strerror(errno));
    if (nothing >= 0) close(nothing);
    return std::nullopt;
  }
  const int child = start_program(
      {.path = program.path, .words = command, .environment = {}, .stdin_fd = nothing, .stdout_fd = ends[1]});
  close(nothing);
  close(ends[1]);
  std::string text;
  const bool is_whole = read_all(ends[0], kLimitSeconds, text);
  close(ends[0]);
  if (!is_whole) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (is_whole && status == 0) return text;
  fault = is_whole ? fmt::format("{}: exit status {}", command[0], status_of(status))
                   : fmt::format("{}: no answer in {} s", command[0], kLimitSeconds);
  return std::nullopt;
}

}  // namespace loft
