// apps: signal handlers. They only set a flag or end the program.
#include "apps/signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace loft {
namespace {

volatile sig_atomic_t pending = 0;

void on_signal(int signal) {
  if (pending != 0) _exit(signal_exit_status(signal));
  pending = signal;
}

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;  // no SA_RESTART: a blocked read comes back
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int pending_signal() {
  return pending;
}

void clear_signal() {
  pending = 0;
}

int signal_exit_status(int signal) {
  return 128 + signal;
}

}  // namespace loft
