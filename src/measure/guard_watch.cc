#include "measure/guard_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"

namespace loft {
namespace {

constexpr const char* kThrottleFact = "cpu_throttle_events";

std::shared_ptr<regex_t> compiled(const std::string& expression) {
  auto out = std::make_unique<regex_t>();
  const int status = regcomp(out.get(), expression.c_str(), REG_EXTENDED | REG_NOSUB);
  if (status != 0) {
    std::array<char, 128> why{};
    regerror(status, out.get(), why.data(), why.size());
    fail(Code::BadRequest, "guard-compiler-re '{}': {}", expression, why.data());
  }
  return {out.release(), [](regex_t* r) {
            regfree(r);
            delete r;
          }};
}

bool has_unknown(const std::vector<GpuPoll>& polls, const ProcessTable& table) {
  return std::any_of(polls.begin(), polls.end(), [&](const GpuPoll& poll) {
    return std::any_of(poll.pids.begin(), poll.pids.end(),
                       [&](int pid) { return kin_of(table, pid, getpid()) == Kin::Unknown; });
  });
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Watch::Watch(const WatchSettings& settings, std::vector<GpuSource> sources)
    : settings_(settings),
      sources_(std::move(sources)),
      compilers_(compiled(settings.compiler_re)),
      window_(double(sysconf(_SC_CLK_TCK))) {
  const auto text = read_kernel_file(settings_.proc_dir + "/stat");
  if (settings_.judge_cpu && !(text && parse_cpu_times(*text))) {
    fail(Code::BadRequest, "{}/stat: no processor times, so their load cannot be watched", settings_.proc_dir);
  }
  const std::vector<GuardFact> known = machine_facts(settings_.proc_dir, settings_.sys_dir);
  const bool knows_throttle =
      std::any_of(sources_.begin(), sources_.end(), [](const GpuSource& s) { return s.knows_throttle; }) ||
      std::any_of(known.begin(), known.end(), [](const GuardFact& f) { return f.name == kThrottleFact; });
  if (settings_.reject_throttle && !knows_throttle) {
    fail(Code::BadRequest, "--reject-throttle: nothing here tells of throttling");
  }
}

void Watch::restart() {
  window_.clear();
  throttle_events_before_ = throttle_events();
}

Reading Watch::look(bool is_last) {
  Reading out;
  const bool has_nested =
      std::any_of(sources_.begin(), sources_.end(), [](const GpuSource& s) { return s.rule == PidRule::Nested; });
  std::vector<int> n_own(sources_.size(), 0);
  if (has_nested) n_own = own_holders(read_process_table(settings_.proc_dir));
  // Sources before the table: a process that starts after them is in it at worst without need.
  std::vector<GpuPoll> polls;
  for (const GpuSource& source : sources_) polls.push_back(source.poll());
  ProcessTable table = read_process_table(settings_.proc_dir);
  for (int again = 0; again < 2 && has_unknown(polls, table); ++again) table = read_process_table(settings_.proc_dir);
  for (int pid : descendants(table, getpid())) own_seen_.insert(pid);
  // Own holders are counted on both sides of the polls, so that one that starts or ends meanwhile is none of others.
  const std::vector<int> n_own_after = own_holders(table);
  for (size_t i = 0; i < n_own.size(); ++i) n_own[i] = std::max(n_own[i], n_own_after[i]);
  look_at_gpus(table, polls, n_own, out);
  look_at_compilers(table, out);
  look_at_cpu(table, is_last, out);
  look_at_throttle(out);
  return out;
}

std::vector<GuardFact> Watch::facts() const {
  std::vector<GuardFact> out = machine_facts(settings_.proc_dir, settings_.sys_dir);
  for (const GpuSource& source : sources_) {
    if (!source.facts) continue;
    const std::vector<GuardFact> more = source.facts();
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::vector<int> Watch::own_holders(const ProcessTable& table) const {
  std::vector<int> out(sources_.size(), 0);
  const std::vector<int> below = descendants(table, getpid());
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].rule != PidRule::Nested) continue;
    out[i] = int(std::count_if(below.begin(), below.end(), [&](int pid) {
      return holds_device(settings_.proc_dir, pid, sources_[i].device_prefix);
    }));
  }
  return out;
}

void Watch::look_at_gpus(const ProcessTable& table, const std::vector<GpuPoll>& polls, const std::vector<int>& n_own,
                         Reading& out) {
  for (size_t i = 0; i < polls.size(); ++i) {
    const GpuPoll& poll = polls[i];
    const bool is_plain = sources_[i].rule == PidRule::Plain;
    const GpuUsers users = is_plain ? users_by_pid(poll, table, getpid(), own_seen_) : users_by_count(poll, n_own[i]);
    if (!is_plain && poll.use_percent) out.use_percent = std::max(out.use_percent.value_or(0), *poll.use_percent);
    out.gpu.all.insert(out.gpu.all.end(), users.all.begin(), users.all.end());
    out.gpu.foreign.insert(out.gpu.foreign.end(), users.foreign.begin(), users.foreign.end());
    out.throttle.insert(out.throttle.end(), poll.throttle.begin(), poll.throttle.end());
    if (!poll.fault.empty()) out.faults.push_back(poll.fault);
  }
}

void Watch::look_at_compilers(const ProcessTable& table, Reading& out) const {
  for (const auto& [pid, stat] : table) {
    if (stat.state == 'Z' || regexec(compilers_.get(), stat.name.c_str(), 0, nullptr, 0) != 0) continue;
    auto& list = kin_of(table, pid, getpid()) == Kin::Own ? out.own_compilers : out.compilers;
    list.push_back(fmt::format("{}:{}", pid, stat.name));
  }
}

void Watch::look_at_cpu(const ProcessTable& table, bool is_last, Reading& out) {
  const auto text = read_kernel_file(settings_.proc_dir + "/stat");
  const auto times = text ? parse_cpu_times(*text) : std::nullopt;
  if (times) {
    window_.add({.seconds = steady_seconds(), .times = *times, .own_ticks = tree_ticks(table, getpid())});
    out.cpu = window_.load(is_last);
  } else if (settings_.judge_cpu) {
    out.faults.push_back(settings_.proc_dir + "/stat: no processor times");
  }
  if (const auto pressure = read_kernel_file(settings_.proc_dir + "/pressure/cpu")) {
    out.pressure = parse_pressure(*pressure);
  }
}

void Watch::look_at_throttle(Reading& out) const {
  if (settings_.reject_throttle && throttle_events() > throttle_events_before_)
    out.throttle.emplace_back("cpu:thermal");
}

double Watch::throttle_events() const {
  for (const GuardFact& fact : machine_facts(settings_.proc_dir, settings_.sys_dir)) {
    if (fact.name == kThrottleFact) return fact.value;
  }
  return 0;
}

}  // namespace loft
