#include "measure/guard_record.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"

namespace loft {
namespace {

// Three decimals are enough for seconds, and keep the file readable.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

OrderedJson rules_json(const GuardRecord& record) {
  const Options& o = record.options;
  return {{"idle_secs", o.idle_secs},
          {"max_attempts", o.max_attempts},
          {"max_wait", o.max_wait},
          {"sample_ms", o.sample_ms},
          {"judge_cpu", record.judge_cpu},
          {"cpu_max", o.cpu_max},
          {"steal_max", o.steal_max},
          {"psi_max", o.psi_max},
          {"reject_throttle", o.reject_throttle},
          {"allow_own_compilers", o.allow_own_compilers},
          {"compiler_re", o.guard_compiler_re}};
}

OrderedJson sample_json(const GuardSample& sample) {
  const Reading& r = sample.reading;
  const Judgement& j = sample.judgement;
  OrderedJson out = {{"seconds", rounded(sample.seconds)},
                     {"clean", j.is_clean},
                     {"gpu", r.gpu.all},
                     {"foreign_gpu", r.gpu.foreign},
                     {"compilers", r.compilers},
                     {"own_compilers", r.own_compilers},
                     {"cpu", nullptr},
                     {"pressure", nullptr},
                     {"throttle", r.throttle},
                     {"faults", r.faults}};
  if (r.cpu) {
    out["cpu"] = {{"foreign_cores", rounded(r.cpu->foreign_cores)},
                  {"steal_percent", rounded(r.cpu->steal_percent)},
                  {"seconds", rounded(r.cpu->seconds)}};
  }
  if (r.pressure) out["pressure"] = *r.pressure;
  if (!j.is_clean) {
    OrderedJson reasons = OrderedJson::object();
    for (const auto& [name, list] : {std::pair("gpu", &j.gpu), std::pair("compilers", &j.compilers),
                                     std::pair("cpu", &j.cpu), std::pair("other", &j.other)}) {
      if (!list->empty()) reasons[name] = *list;
    }
    out["reasons"] = reasons;
  }
  return out;
}

OrderedJson attempt_json(const GuardAttempt& attempt) {
  OrderedJson samples = OrderedJson::array();
  for (const GuardSample& sample : attempt.samples) samples.push_back(sample_json(sample));
  return {{"attempt", attempt.number},           {"start", attempt.start},
          {"clean", attempt.is_clean},           {"command_status", attempt.command_status},
          {"seconds", rounded(attempt.seconds)}, {"samples", samples}};
}

}  // namespace

std::string iso_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 40> text{};
  const size_t n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  std::string out(text.data(), n);
  return out.insert(out.size() - 2, ":");
}

GuardLog::GuardLog(const std::string& file, bool is_quiet) : is_quiet_(is_quiet) {
  if (file.empty()) return;
  file_ = std::fopen(file.c_str(), "ae");  // e: not passed to the command
  if (!file_) fail(Code::BadRequest, "--log {}: {}", file, std::strerror(errno));
}

GuardLog::~GuardLog() {
  if (file_) std::fclose(file_);
}

void GuardLog::line(const std::string& text) {
  // A reader of stderr that went away must not end the watch, so a failed write is let go.
  if (!is_quiet_) std::fputs(fmt::format("loft guard: {} {}\n", iso_time_now(), text).c_str(), stderr);
  line_to_file(text);
}

void GuardLog::line_to_file(const std::string& text) {
  if (!file_) return;
  std::fputs(fmt::format("{} {}\n", iso_time_now(), text).c_str(), file_);
  std::fflush(file_);
}

std::string guard_json(const GuardRecord& record) {
  OrderedJson waits = OrderedJson::array(), attempts = OrderedJson::array(), facts = OrderedJson::array();
  for (const GuardWait& w : record.waits) {
    waits.push_back({{"seconds", rounded(w.seconds)}, {"samples", w.samples}, {"resets", w.resets}});
  }
  for (const GuardAttempt& attempt : record.attempts) attempts.push_back(attempt_json(attempt));
  for (const GuardFacts& at : record.facts) {
    OrderedJson row = {{"seconds", rounded(at.seconds)}};
    for (const GuardFact& fact : at.facts) row[fact.name] = fact.value;
    facts.push_back(row);
  }
  OrderedJson lock = {{"path", record.lock}, {"waited_s", rounded(record.lock_seconds)}, {"outer_pid", nullptr}};
  if (record.outer_pid != 0) lock["outer_pid"] = record.outer_pid;
  const OrderedJson out = {{"schema", "loft.guard/1"},
                           {"verdict", record.verdict},
                           {"exit_status", record.exit_status},
                           {"mode", record.mode},
                           {"command", record.command},
                           {"lock", lock},
                           {"rules", rules_json(record)},
                           {"sources", record.sources},
                           {"idle_waits", waits},
                           {"attempts", attempts},
                           {"facts", facts}};
  return dump_json(out, 1) + "\n";
}

}  // namespace loft
