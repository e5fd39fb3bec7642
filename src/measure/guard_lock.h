// measure: the lock that all guards of a host share. A path enters; a held lock, or who holds it, leaves.
#pragma once
#include <string>

namespace loft {

/// What stands beside the lock while it is held: pid=, start=, mode=, cmd=, one a line.
struct LockHolder {
  int pid = 0;
  std::string start;  // ISO time with zone
  std::string mode;   // guard or hold
  std::string command;
};

/// flock on a file that is made when absent, for everyone to lock. Move-only by not being copied; released at its end,
/// and never passed to a program that is started.
class GuardLock {
 public:
  /// Opens, does not lock. Errors: BadRequest when the path is no regular file or cannot be opened or made.
  explicit GuardLock(std::string path);
  GuardLock(const GuardLock&) = delete;
  GuardLock& operator=(const GuardLock&) = delete;
  ~GuardLock();
  /// Takes the lock if nobody has it. A lock file that was replaced since is opened again.
  bool try_lock();
  /// Writes <path>.holder. False when that is not possible, which does not weaken the lock.
  bool write_holder(const LockHolder& holder) const;

 private:
  void open_file();
  std::string path_;
  int fd_ = -1;
  bool is_locked_ = false;
};

struct LockStatus {
  bool is_held = false;
  std::string text;  // "free", or "held" and what is known of the holder
};
/// Errors: BadRequest as above. A lock file that does not exist is free, and is not made.
LockStatus lock_status(const std::string& path, const std::string& proc_dir);

}  // namespace loft
