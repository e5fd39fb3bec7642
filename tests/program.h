// Runs the real program as a user does: arguments, environment and stdin enter; stdout, stderr and the status leave.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace loft::program {

struct Outcome {
  int status = -1;  // exit status; 128 + signal when a signal ended it
  bool by_signal = false;
  std::string out, err;
};

struct Input {
  std::vector<std::string> environment{};  // further "NAME=VALUE"
  std::string text{};                      // on stdin
  bool without_settings = false;           // drop inherited variables that loft or the published programs read
  unsigned limit_s = 0;                    // end it with SIGALRM after that many seconds; 0: no limit
  // Called with the text of stdout so far whenever some came: may send the process a signal.
  std::function<void(pid_t, const std::string&)> on_output{};
  std::function<void(pid_t, const std::string&)> on_error_output = {};  // the same for stderr
};

/// In a child: forgets the inherited settings.
inline void drop_settings() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    for (const char* prefix : {"LOFT_", "MLX_", "MLXCEL_", "ROCM_GPU_GUARD_", "BENCH_"}) {
      if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

/// Starts `binary` with args and waits for its end.
inline Outcome run(const std::string& binary, std::vector<std::string> args, const Input& input = {}) {
  std::array<int, 2> in{}, out{}, err{};
  if (pipe(in.data()) || pipe(out.data()) || pipe(err.data())) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
    for (int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) close(fd);
    if (input.without_settings) drop_settings();
    alarm(input.limit_s);
    for (const std::string& e : input.environment) putenv(const_cast<char*>(e.c_str()));
    std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  close(in[0]), close(out[1]), close(err[1]);
  // Inputs of these tests fit the pipe's buffer.
  std::signal(SIGPIPE, SIG_IGN);
  if (!input.text.empty() && write(in[1], input.text.data(), input.text.size()) < 0) std::abort();
  close(in[1]);
  Outcome result;
  std::array<pollfd, 2> polls = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  std::array<std::string*, 2> texts = {&result.out, &result.err};
  for (int n_open = 2; n_open > 0;) {
    poll(polls.data(), polls.size(), -1);
    for (size_t i = 0; i < 2; ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t n = read(polls[i].fd, buffer.data(), buffer.size());
      if (n <= 0) {
        close(polls[i].fd);
        polls[i].fd = -1;
        --n_open;
        continue;
      }
      texts[i]->append(buffer.data(), size_t(n));
      const auto& told = i == 0 ? input.on_output : input.on_error_output;
      if (told) told(child, *texts[i]);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  result.by_signal = WIFSIGNALED(status);
  result.status = result.by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace loft::program
