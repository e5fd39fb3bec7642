#include "measure/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/file_map.h"
#include "measure/guard_child.h"
#include "measure/guard_lock.h"
#include "measure/guard_record.h"
#include "measure/guard_watch.h"

namespace loft {
namespace {

constexpr int kGaveUp = 75;  // EX_TEMPFAIL of sysexits.h: not now
constexpr double kPatienceSeconds = 10, kLockPollSeconds = 0.1, kFactsSeconds = 10;
constexpr int kMostFaults = 10;  // samples in a row that cannot be read

const char* signal_name(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

// The process that holds the lock for us: the one named, when it is above us.
int outer_guard(const Options& options) {
  if (!options.guard_lock_held) return 0;
  const int pid = int(*options.guard_lock_held);
  const bool is_above = kin_of(read_process_table(options.guard_proc_dir), getpid(), pid) == Kin::Own;
  return is_above && pid != getpid() ? pid : 0;
}

void copy_to_stdout(std::FILE* from) {
  const int fd = fileno(from);
  lseek(fd, 0, SEEK_SET);
  std::array<char, 65536> buffer{};
  for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t done = 0; done < n;) {
      const ssize_t wrote = write(STDOUT_FILENO, buffer.data() + done, size_t(n - done));
      if (wrote < 0) fail(Code::Device, "the command's output cannot be written: {}", std::strerror(errno));
      done += wrote;
    }
  }
}

// Every step returns the exit status when the guard is to end there, else nothing.
using End = std::optional<int>;

class Guard {
 public:
  Guard(const Options& options, std::vector<std::string> words, std::string program)
      : o_(options),
        words_(std::move(words)),
        program_(std::move(program)),
        log_(options.log.value_or(""), options.quiet),
        stdin_start_(lseek(STDIN_FILENO, 0, SEEK_CUR)),
        started_(steady_seconds()) {
    record_.options = o_;
    record_.mode = o_.hold ? "hold" : "guard";
    record_.command = words_;
    record_.lock = o_.guard_lock;
  }
  int run();
  GuardRecord& record() { return record_; }

 private:
  End take_lock();
  End hold();
  End wait_for_idle(Watch& watch);
  End run_attempts(Watch& watch);
  End supervise(Watch& watch, GuardAttempt& attempt, int pid);
  void sample(Watch& watch, GuardAttempt& attempt, bool is_last);
  void tell_facts(const Watch& watch);
  int start_command(std::FILE* kept_output);
  End gave_up(const std::string& verdict, const std::string& text);
  int caught(int signal);
  uint64_t budget_left() const;

  const Options& o_;
  std::vector<std::string> words_;
  std::string program_;  // the file to execute
  GuardLog log_;
  GuardRecord record_;
  GuardRules rules_;
  std::unique_ptr<GuardLock> lock_;
  off_t stdin_start_;  // -1 for a pipe or a terminal
  double started_;
  double waited_ = 0;  // seconds for the lock and for idle
  double facts_at_ = -kFactsSeconds;
  int faults_in_a_row_ = 0;
};

// Whole seconds, as the option counts, so that an instant lock leaves room for one idle wait of the same length.
uint64_t Guard::budget_left() const {
  if (o_.max_wait == 0) return UINT64_MAX;
  const auto waited = uint64_t(waited_);
  return o_.max_wait > waited ? o_.max_wait - waited : 0;
}

End Guard::gave_up(const std::string& verdict, const std::string& text) {
  record_.verdict = verdict;
  log_.line(text);
  return kGaveUp;
}

int Guard::caught(int signal) {
  record_.verdict = "signal";
  log_.line(fmt::format("caught {}: ending the command and all its descendants", signal_name(signal)));
  end_descendants(kPatienceSeconds);
  return 128 + signal;
}

End Guard::take_lock() {
  record_.outer_pid = outer_guard(o_);
  if (record_.outer_pid != 0) {
    log_.line(fmt::format("lock held by outer guard {}", record_.outer_pid));
    return std::nullopt;
  }
  lock_ = std::make_unique<GuardLock>(o_.guard_lock);
  const uint64_t need = o_.hold ? 0 : o_.idle_secs;
  const double start = steady_seconds();
  for (bool is_told = false; !lock_->try_lock(); is_told = true) {
    if (!is_told) log_.line(fmt::format("waiting for guard lock {}", o_.guard_lock));
    waited_ = record_.lock_seconds = steady_seconds() - start;
    if (budget_left() < std::max<uint64_t>(need, 1)) {
      return gave_up("gave_up", fmt::format("gave up after {}s waiting for the lock", uint64_t(waited_)));
    }
    if (const int signal = wait_for_event(kLockPollSeconds)) return caught(signal);
  }
  waited_ = record_.lock_seconds = steady_seconds() - start;
  log_.line(fmt::format("acquired guard lock {} after {}s", o_.guard_lock, uint64_t(waited_)));
  if (!lock_->write_holder({.pid = getpid(),
                            .start = iso_time_now(),
                            .mode = record_.mode,
                            .command = fmt::format("{}", fmt::join(words_, " "))})) {
    log_.line(fmt::format("{}.holder cannot be written; --status will not name this guard", o_.guard_lock));
  }
  return std::nullopt;
}

End Guard::wait_for_idle(Watch& watch) {
  GuardWait& wait = record_.waits.emplace_back();
  const double start = steady_seconds(), waited_before = waited_;
  const auto account = [&] { waited_ = waited_before + (wait.seconds = steady_seconds() - start); };
  IdleStreak streak{double(o_.idle_secs)};
  watch.restart();
  log_.line(fmt::format("waiting for {}s of idle", o_.idle_secs));
  bool is_busy = true;  // nothing is known yet, so the budget is looked at as after a busy sample
  while (!streak.is_done()) {
    if (is_busy && budget_left() < o_.idle_secs) {
      return gave_up("gave_up", fmt::format("gave up after {}s waiting for idle", uint64_t(waited_)));
    }
    const Reading reading = watch.look(false);
    const Judgement judgement = judge(reading, rules_, Phase::Before);
    const double now = steady_seconds();
    ++wait.samples;
    is_busy = !judgement.is_clean;
    faults_in_a_row_ = reading.faults.empty() ? 0 : faults_in_a_row_ + 1;
    if (faults_in_a_row_ >= kMostFaults) fail(Code::Device, "loft guard: {}", reading.faults[0]);
    if (const auto ended = streak.add(now, judgement.is_clean)) {
      ++wait.resets;
      log_.line(fmt::format("idle streak reset after {}s: {}", uint64_t(*ended), judgement.text("gpu")));
    } else if (is_busy && wait.samples == 1) {
      log_.line(fmt::format("busy: {}", judgement.text("gpu")));
    }
    account();
    if (streak.is_done()) break;
    const double pause = double(o_.sample_ms) / 1000;
    if (const int signal = wait_for_event(is_busy ? pause : std::min(pause, streak.left(now)))) return caught(signal);
    account();
    if (is_busy && o_.max_wait > 0 && budget_left() == 0) {
      return gave_up("gave_up", fmt::format("gave up after {}s waiting for idle", uint64_t(waited_)));
    }
  }
  log_.line(fmt::format("idle for {}s", o_.idle_secs));
  return std::nullopt;
}

void Guard::tell_facts(const Watch& watch) {
  const double now = steady_seconds();
  if (now - facts_at_ < kFactsSeconds) return;
  facts_at_ = now;
  const std::vector<GuardFact> facts = watch.facts();
  if (facts.empty()) return;
  record_.facts.push_back({.seconds = now - started_, .facts = facts});
  std::string text = "facts:";
  for (const GuardFact& fact : facts) text += fmt::format(" {}={:.0f}", fact.name, fact.value);
  log_.line_to_file(text);
}

void Guard::sample(Watch& watch, GuardAttempt& attempt, bool is_last) {
  GuardSample& sample = attempt.samples.emplace_back();
  sample.reading = watch.look(is_last);
  sample.judgement = judge(sample.reading, rules_, Phase::During);
  sample.seconds = attempt.samples.size() == 1 ? 0 : attempt.seconds;
  const size_t k = attempt.samples.size();
  if (sample.judgement.is_clean) {
    log_.line_to_file(fmt::format("sample {}: clean gpu=[{}]", k, fmt::join(sample.reading.gpu.all, ",")));
    if (!sample.reading.own_compilers.empty()) {
      log_.line(fmt::format("sample {}: own compilers=[{}]", k, fmt::join(sample.reading.own_compilers, ",")));
    }
  } else {
    attempt.is_clean = false;
    log_.line(fmt::format("sample {}: CONTENDED {}", k, sample.judgement.text("foreign_gpu")));
  }
  tell_facts(watch);
}

int Guard::start_command(std::FILE* kept_output) {
  if (stdin_start_ >= 0) lseek(STDIN_FILENO, stdin_start_, SEEK_SET);  // a further attempt reads the file anew
  const std::string held = std::to_string(getpid());
  StartRequest request{.path = program_, .words = words_, .environment = {}};
  for (const char* name : {"LOFT_GUARD_LOCK_HELD=", "ROCM_GPU_GUARD_LOCK_HELD="}) {
    request.environment.push_back(name + held);
  }
  if (kept_output) request.stdout_fd = fileno(kept_output);
  return start_program(request);
}

End Guard::supervise(Watch& watch, GuardAttempt& attempt, int pid) {
  const double start = steady_seconds(), interval = double(o_.sample_ms) / 1000;
  for (double next = start + interval;;) {
    if (const int signal = wait_for_event(next - steady_seconds())) return caught(signal);
    const auto status = reap(pid);
    attempt.seconds = steady_seconds() - start;
    if (status) attempt.command_status = *status;
    if (!status && steady_seconds() < next) continue;
    sample(watch, attempt, status.has_value());
    if (status) break;
    next = std::max(next + interval, steady_seconds());  // a look that took longer than the interval skips some
  }
  log_.line(fmt::format("monitor: {} samples", attempt.samples.size()));
  return std::nullopt;
}

End Guard::run_attempts(Watch& watch) {
  for (uint64_t i = 1; i <= o_.max_attempts; ++i) {
    if (const End end = wait_for_idle(watch)) return end;
    GuardAttempt& attempt = record_.attempts.emplace_back();
    attempt.number = i;
    attempt.start = iso_time_now();
    attempt.is_clean = true;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> kept(o_.only_clean ? std::tmpfile() : nullptr, std::fclose);
    if (o_.only_clean && !kept) fail(Code::Device, "--only-clean: no temporary file: {}", std::strerror(errno));
    if (kept) fcntl(fileno(kept.get()), F_SETFD, FD_CLOEXEC);
    watch.restart();
    sample(watch, attempt, false);
    if (!attempt.is_clean) {  // somebody came in the instant after the idle wait: not an attempt yet
      record_.attempts.pop_back();
      --i;
      continue;
    }
    log_.line(fmt::format("attempt {}/{}: start: {}", i, o_.max_attempts, fmt::join(words_, " ")));
    const int pid = start_command(kept.get());
    if (const End end = supervise(watch, attempt, pid)) return end;
    if (attempt.is_clean) {
      log_.line(fmt::format("attempt {}: CLEAN, exit {}", i, attempt.command_status));
      if (kept) copy_to_stdout(kept.get());
      record_.verdict = "clean";
      return attempt.command_status;
    }
    log_.line(fmt::format("attempt {}: REJECTED (contended), exit {}{}", i, attempt.command_status,
                          i < o_.max_attempts ? "; rerunning" : ""));
  }
  return gave_up("contended", fmt::format("every attempt ({}) was contended", o_.max_attempts));
}

End Guard::hold() {
  record_.verdict = "held";
  const int pid = start_command(nullptr);
  for (;;) {
    if (const int signal = wait_for_event(1)) return caught(signal);
    if (const auto status = reap(pid)) return status;
  }
}

int Guard::run() {
  std::optional<Watch> watch;
  if (!o_.hold) {
    std::vector<std::string> notes;
    std::vector<GpuSource> sources = open_sources(source_choice(o_), notes);
    rules_ = {.judge_cpu = o_.watch_cpu || sources.empty(),
              .cpu_max = o_.cpu_max,
              .steal_max = o_.steal_max,
              .psi_max = o_.psi_max,
              .allow_own_compilers = o_.allow_own_compilers,
              .reject_throttle = o_.reject_throttle};
    if (rules_.judge_cpu) notes.emplace_back("source cpu: load of other programs, steal, pressure");
    watch.emplace(WatchSettings{.proc_dir = o_.guard_proc_dir,
                                .sys_dir = o_.guard_sys_dir,
                                .compiler_re = o_.guard_compiler_re,
                                .judge_cpu = rules_.judge_cpu,
                                .reject_throttle = o_.reject_throttle},
                  std::move(sources));
    record_.judge_cpu = rules_.judge_cpu;
    record_.sources = notes;
    for (const std::string& note : notes) log_.line(note);
  }
  if (!o_.hold && o_.max_attempts == 0) return *gave_up("contended", "every attempt (0) was contended");
  if (const End end = take_lock()) return *end;
  const End end = o_.hold ? hold() : run_attempts(*watch);
  return *end;
}

}  // namespace

SourceChoice source_choice(const Options& options) {
  return {.wanted = options.guard_for,
          .kfd_dir = options.guard_kfd_dir,
          .nvml = options.guard_nvml,
          .nvidia_smi = options.guard_nvidia_smi,
          .proc_dir = options.guard_proc_dir,
          .kfd_is_this_kernels = options.guard_kfd_dir == Options{}.guard_kfd_dir};
}

int guard_command(const Options& options, const std::vector<std::string>& words,
                  const std::vector<std::string>& environment) {
  const FoundProgram program = find_program(words[0], environment);
  if (program.status != 0) {
    fmt::print(stderr, "loft guard: {}: {}\n", words[0],
               program.status == 127 ? "command not found" : "cannot be executed");
    return program.status;
  }
  block_guard_signals();
  adopt_orphans();
  Guard guard(options, words, program.path);
  try {
    guard.record().exit_status = guard.run();
  } catch (const std::exception&) {
    end_descendants(kPatienceSeconds);
    throw;
  }
  if (options.json_file) write_text_file(*options.json_file, guard_json(guard.record()));
  return guard.record().exit_status;
}

}  // namespace loft
