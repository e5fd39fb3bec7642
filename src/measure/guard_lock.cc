#include "measure/guard_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "measure/guard_proc.h"

namespace loft {
namespace {

// Without O_CREAT, since a sticky folder does not let O_CREAT open another user's file; O_NONBLOCK so that a FIFO does
// not wait for a writer before it is refused.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

void want_regular(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(Code::BadRequest, "guard lock {}: not a regular file", path);
  }
}

std::string holder_path(const std::string& path) {
  return path + ".holder";
}

std::optional<LockHolder> read_holder(const std::string& path) {
  const auto text = read_kernel_file(holder_path(path));
  if (!text) return std::nullopt;
  LockHolder out;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const std::string line = text->substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = std::min(line.find('='), line.size());
    const std::string key = line.substr(0, equals), value = line.substr(std::min(equals + 1, line.size()));
    if (key == "pid") std::from_chars(value.data(), value.data() + value.size(), out.pid);
    if (key == "start") out.start = value;
    if (key == "mode") out.mode = value;
    if (key == "cmd") out.command = value;
  }
  return out;
}

}  // namespace

GuardLock::GuardLock(std::string path) : path_(std::move(path)) {
  open_file();
}

GuardLock::~GuardLock() {
  if (is_locked_) ::unlink(holder_path(path_).c_str());
  if (fd_ >= 0) ::close(fd_);
}

void GuardLock::open_file() {
  if (fd_ >= 0) ::close(fd_);
  // Between the two calls somebody may make the file or remove it, hence a few rounds.
  for (int round = 0; round < 4; ++round) {
    fd_ = ::open(path_.c_str(), kOpenFlags);
    if (fd_ >= 0 || errno != ENOENT) break;
    const int made = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made >= 0) {
      if (fchmod(made, 0666) != 0) fail(Code::BadRequest, "guard lock {}: {}", path_, std::strerror(errno));
      ::close(made);
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (fd_ < 0) fail(Code::BadRequest, "guard lock {}: {}", path_, std::strerror(errno));
  want_regular(fd_, path_);
}

bool GuardLock::try_lock() {
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) return false;
  // A lock on a file that is no longer at the path excludes nobody.
  struct stat ours {
  }, there{};
  if (fstat(fd_, &ours) != 0 || stat(path_.c_str(), &there) != 0 || ours.st_ino != there.st_ino ||
      ours.st_dev != there.st_dev) {
    open_file();
    return false;
  }
  is_locked_ = true;
  return true;
}

bool GuardLock::write_holder(const LockHolder& holder) const {
  std::string command = holder.command;
  std::replace(command.begin(), command.end(), '\n', ' ');
  const std::string text =
      fmt::format("pid={}\nstart={}\nmode={}\ncmd={}\n", holder.pid, holder.start, holder.mode, command);
  // The folder may be open to everyone, so the new file must be our own and no link that another user put there.
  const std::string part = holder_path(path_) + ".part";
  ::unlink(part.c_str());
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool is_written = ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  ::close(fd);
  return is_written && ::rename(part.c_str(), holder_path(path_).c_str()) == 0;
}

LockStatus lock_status(const std::string& path, const std::string& proc_dir) {
  const int fd = ::open(path.c_str(), kOpenFlags);
  if (fd < 0 && errno == ENOENT) return {.is_held = false, .text = "free"};
  if (fd < 0) fail(Code::BadRequest, "guard lock {}: {}", path, std::strerror(errno));
  want_regular(fd, path);
  // A shared lock asks without shutting out; it is gone again at close.
  const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0;
  ::close(fd);
  if (!is_held) return {.is_held = false, .text = "free"};
  const auto holder = read_holder(path);
  if (!holder) return {.is_held = true, .text = "held, no holder file"};
  const bool is_alive = read_kernel_file(std::string(proc_dir) + fmt::format("/{}/stat", holder->pid)).has_value();
  return {.is_held = true,
          .text = fmt::format("held{} pid={} start={} mode={} cmd={}", is_alive ? "" : ", stale:", holder->pid,
                              holder->start, holder->mode, holder->command)};
}

}  // namespace loft
