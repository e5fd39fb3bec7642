// apps: Ctrl-C and its kin. The first signal asks the work to end, a second one ends the program at once.
#pragma once

namespace loft {

/// Catches SIGINT, SIGTERM and SIGHUP from now on.
void catch_signals();
/// The signal that came first, 0 for none.
int pending_signal();
/// Forgets the pending signal: the next one is a first one again.
void clear_signal();
/// 128 + signal, the status of a program that a signal ended.
int signal_exit_status(int signal);

}  // namespace loft
