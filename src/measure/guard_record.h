// measure: what a guard says: its lines, and the record that --json-file keeps.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "core/options.h"
#include "measure/guard_sample.h"
#include "measure/guard_sources.h"

namespace loft {

/// Now, local time with zone: 2026-03-01T12:00:00+01:00.
std::string iso_time_now();

/// Lines "TIME TEXT" to stderr (after "loft guard: ") and to a file.
class GuardLog {
 public:
  /// file: "" for none; appended to. Error: BadRequest when it cannot be opened.
  GuardLog(const std::string& file, bool is_quiet);
  GuardLog(const GuardLog&) = delete;
  GuardLog& operator=(const GuardLog&) = delete;
  ~GuardLog();
  void line(const std::string& text);          // both
  void line_to_file(const std::string& text);  // the file only

 private:
  std::FILE* file_ = nullptr;
  bool is_quiet_;
};

struct GuardSample {
  double seconds = 0;  // since the attempt began
  Reading reading;
  Judgement judgement;
};
struct GuardAttempt {
  uint64_t number = 0;
  std::string start;  // ISO time
  bool is_clean = false;
  int command_status = 0;
  double seconds = 0;  // of the command
  std::vector<GuardSample> samples;
};
struct GuardWait {  // one wait for an idle machine
  double seconds = 0;
  int samples = 0, resets = 0;
};
struct GuardFacts {
  double seconds = 0;  // since the guard began
  std::vector<GuardFact> facts;
};

struct GuardRecord {
  std::string verdict;  // clean, contended, gave_up, signal, held
  int exit_status = 0;
  std::string mode;  // guard, hold
  std::vector<std::string> command;
  std::string lock;
  double lock_seconds = 0;
  int outer_pid = 0;  // 0: none
  Options options;    // what decided
  bool judge_cpu = false;
  std::vector<std::string> sources;
  std::vector<GuardWait> waits;
  std::vector<GuardAttempt> attempts;
  std::vector<GuardFacts> facts;
};
/// {"schema": "loft.guard/1", ..} and a newline; the keys are those of docs/guard.md.
std::string guard_json(const GuardRecord& record);

}  // namespace loft
