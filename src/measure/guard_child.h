// measure: the guarded command as a process. A command line enters; its status leaves. All waiting and killing is here.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace loft {

/// The file that COMMAND names, by PATH when it has no slash; `status` is 0, or what a shell would give: 126 when it
/// is there but cannot be executed, 127 when it is not there.
struct FoundProgram {
  std::string path;
  int status = 0;
};
FoundProgram find_program(const std::string& command, const std::vector<std::string>& environment);

/// Signals that the guard waits for with wait_for_event instead of being interrupted: INT, TERM, HUP and CHLD. Blocked
/// from here on, and PIPE ignored; a started command gets what was before.
void block_guard_signals();
/// The first of INT, TERM, HUP that comes within `seconds`; 0 when none does. Comes back early, with 0, when a child
/// changed its state.
int wait_for_event(double seconds);

struct StartRequest {
  std::string path;                      // file to execute
  std::vector<std::string> words;        // argv
  std::vector<std::string> environment;  // NAME=VALUE, added to or replacing those of this process
  int stdin_fd = -1, stdout_fd = -1;     // -1: ours
};
/// Makes this process the parent of every descendant whose own parent ends, so that all stay recognisable.
void adopt_orphans();
/// Starts it. Error: Device when there is no process to be had. A file that turns out not to be executable ends with
/// 126 or 127.
int start_program(const StartRequest& request);
/// Waits for every child that has ended, adopted ones too, without blocking. The exit status of `pid` (128 + signal
/// when one ended it) once it is among them.
std::optional<int> reap(int pid);

/// Ends all descendants of this process: TERM, again to those that appear later, KILL after `patience_seconds` or at a
/// further INT, TERM or HUP. Returns when none is left.
void end_descendants(double patience_seconds);

/// Output of a short program. nullopt, and why in `fault`, when it cannot run, ends with another status than 0 or runs
/// longer than 10 s. Signals stay as they are; the child is waited for here.
std::optional<std::string> program_output(const std::vector<std::string>& command, std::string& fault);

}  // namespace loft
