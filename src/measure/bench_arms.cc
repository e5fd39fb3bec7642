#include "measure/bench_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "core/error.h"
#include "core/options.h"
#include "measure/bench_lists.h"
#include "measure/bench_row.h"
#include "measure/bench_stats.h"

namespace loft {
namespace {

constexpr std::string_view kNull = "-null";

void check_name(const std::string& name, const std::vector<BenchArm>& arms) {
  const bool is_plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
  if (!is_plain)
    fail(Code::BadRequest, "--arm: found the name '{}', wanted letters, digits, '.', '_' or '-' before '='", name);
  if (name.ends_with(kNull))
    fail(Code::BadRequest, "--arm: '{}': names that end in {} are the tool's own", name, kNull);
  for (const BenchArm& a : arms) {
    if (a.name == name) fail(Code::BadRequest, "--arm: '{}' is given twice", name);
  }
}

std::vector<size_t> permutation(size_t n, size_t which) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  size_t n_orders = 1;
  for (size_t i = 2; i <= n; ++i) n_orders *= i;
  for (size_t i = which % n_orders; i > 0; --i) std::next_permutation(order.begin(), order.end());
  return order;
}

/// Observations by round and arm; a round stands only when every arm has all of its metrics.
using Observations = std::map<size_t, std::map<std::string, std::vector<OrderedJson>>>;

Observations observations_of(const std::vector<OrderedJson>& rows) {
  Observations out;
  for (const OrderedJson& row : rows) {
    const double round = row_number(row, "round", -1);
    if (round >= 0) out[size_t(round)][row_text(row, "arm")].push_back(row);
  }
  return out;
}

bool is_whole(const std::vector<OrderedJson>& rows) {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), row_is_ok);
}

bool is_only_contended(const std::map<std::string, std::vector<OrderedJson>>& by_arm) {
  bool is_any = false;
  for (const auto& [arm, rows] : by_arm) {
    for (const OrderedJson& row : rows) {
      if (row_is_ok(row)) continue;
      if (row_text(row, "status") != "CONTENDED") return false;
      is_any = true;
    }
  }
  return is_any;
}

void check_flags(const std::vector<BenchArm>& arms, const std::vector<OrderedJson>& earlier) {
  for (const OrderedJson& row : earlier) {
    const std::string name = row_text(row, "arm");
    const auto arm = std::find_if(arms.begin(), arms.end(), [&](const BenchArm& a) { return a.name == name; });
    if (arm == arms.end()) fail(Code::BadRequest, "--resume: the file has an arm '{}', which is not asked for", name);
    if (row_text(row, "flags") != arm->flags) {
      fail(Code::BadRequest, "--resume: arm '{}' had the flags '{}' in the file, has '{}' now", name,
           row_text(row, "flags"), arm->flags);
    }
  }
}

const BenchArm& null_of(const std::vector<BenchArm>& arms, size_t i) {
  for (const BenchArm& a : arms) {
    if (a.source == i && a.name.ends_with(kNull)) return a;
  }
  return arms.back();  // the base's own
}

std::string ratio_text(const RatioFigures& r) {
  return fmt::format("{:.4f} ({:.4f}-{:.4f})", r.median, r.lo, r.hi);
}

OrderedJson ratio_json(const RatioFigures& r) {
  return {{"median", r.median}, {"lo", r.lo}, {"hi", r.hi}, {"coverage", r.coverage}};
}

}  // namespace

std::vector<BenchArm> parse_arms(const std::vector<std::string>& texts, bool null_every_arm) {
  std::vector<BenchArm> arms;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos) fail(Code::BadRequest, "--arm: found '{}', wanted NAME='FLAGS'", text);
    check_name(name, arms);
    const std::string flags = text.substr(equals + 1);
    arms.push_back({name, flags, split_words("--arm", flags), arms.size()});
  }
  const size_t n = null_every_arm ? arms.size() : std::min<size_t>(1, arms.size());
  for (size_t i = 0; i < n; ++i) {
    BenchArm null = arms[i];
    null.name += kNull;
    arms.push_back(std::move(null));
  }
  return arms;
}

std::vector<size_t> round_order(size_t n_arms, size_t round) {
  constexpr size_t kMostPermuted = 3;
  if (n_arms <= kMostPermuted) return permutation(n_arms, round);
  std::vector<size_t> order(n_arms);
  std::iota(order.begin(), order.end(), size_t(0));
  // The engine's numbers are fixed by the standard, those of std::shuffle are not.
  std::mt19937_64 engine(round / n_arms);
  for (size_t i = n_arms; i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  std::rotate(order.begin(), order.begin() + int64_t(round % n_arms), order.end());
  return order;
}

std::map<std::string, double> arm_metrics(const std::vector<OrderedJson>& rows) {
  std::set<std::string> models;
  for (const OrderedJson& row : rows) models.insert(row_text(row, "model_filename"));
  std::map<std::string, double> out;
  for (const OrderedJson& row : rows) {
    const std::string name =
        (models.size() > 1 ? row_text(row, "model_filename") + " " : std::string()) + row_text(row, "test");
    const auto put = [&](std::string metric, double value) {
      if (out.contains(metric)) metric += fmt::format(" (row {})", out.size() + 1);
      if (value > 0) out[metric] = value;
    };
    const bool joint = row.value("pp_ts", OrderedJson()).is_object() && row.value("tg_ts", OrderedJson()).is_object();
    if (joint) {
      put(name + ": prompt", row_number(row["pp_ts"], "median"));
      put(name + ": answer", row_number(row["tg_ts"], "median"));
    } else {
      put(name, row_number(row, "median_ts"));
    }
  }
  return out;
}

const char* arm_verdict_name(ArmVerdict verdict) {
  constexpr const char* kNames[] = {"unresolved", "faster", "slower"};
  return kNames[size_t(verdict)];
}

RatioFigures ratio_figures(const std::vector<double>& ratios) {
  const SampleStats s = sample_stats(ratios);
  if (s.n == 0) return {};
  return {.median = s.median, .lo = s.ci_lo, .hi = s.ci_hi, .coverage = s.ci_coverage};
}

ArmVerdict judge(const RatioFigures& arm, const RatioFigures& null, size_t n_rounds) {
  const bool excludes = arm.lo > 1 || arm.hi < 1;
  const bool null_holds = null.lo <= 1 && null.hi >= 1;
  const bool is_farther = std::fabs(arm.median - 1) > std::fabs(null.median - 1);
  if (n_rounds < kFewestRounds || !excludes || !null_holds || !is_farther) return ArmVerdict::Unresolved;
  return arm.median > 1 ? ArmVerdict::Faster : ArmVerdict::Slower;
}

ArmsReport report_arms(const std::vector<BenchArm>& arms, std::vector<OrderedJson> rows) {
  ArmsReport report{.arms = arms, .figures = {}, .rows = std::move(rows)};
  // By arm and metric, one value a round.
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  for (const auto& [round, by_arm] : observations_of(report.rows)) {
    std::vector<std::map<std::string, double>> metrics;
    for (const BenchArm& a : arms) {
      const auto it = by_arm.find(a.name);
      if (it != by_arm.end() && is_whole(it->second)) metrics.push_back(arm_metrics(it->second));
    }
    const bool is_complete =
        metrics.size() == arms.size() && std::all_of(metrics.begin(), metrics.end(), [&](const auto& m) {
          return m.size() == metrics[0].size() &&
                 std::equal(m.begin(), m.end(), metrics[0].begin(),
                            [](const auto& a, const auto& b) { return a.first == b.first; });
        });
    if (!is_complete) {
      ++report.n_dropped;
      report.n_contended += is_only_contended(by_arm);
      continue;
    }
    ++report.n_rounds;
    for (size_t i = 0; i < arms.size(); ++i) {
      for (const auto& [metric, value] : metrics[i]) values[metric][arms[i].name].push_back(value);
    }
  }
  for (const auto& [metric, by_arm] : values) {
    const auto ratios = [&, &of = by_arm](const std::string& arm, const std::string& base) {
      std::vector<double> out;
      for (size_t r = 0; r < of.at(arm).size(); ++r) out.push_back(of.at(arm)[r] / of.at(base)[r]);
      return ratio_figures(out);
    };
    for (size_t i = 0; i < arms.size(); ++i) {
      if (arms[i].source != i) continue;
      const bool is_alone =
          std::count_if(arms.begin(), arms.end(), [](const BenchArm& a) { return !a.name.ends_with(kNull); }) == 1;
      if (i == 0 && !is_alone) continue;
      const BenchArm& null = null_of(arms, i);
      ArmFigures f{.metric = metric, .arm = is_alone ? null.name : arms[i].name};
      f.base_median = median_of(by_arm.at(arms[0].name));
      f.arm_median = median_of(by_arm.at(f.arm));
      f.ratio = ratios(f.arm, arms[0].name);
      f.null = ratios(null.name, arms[null.source].name);
      f.verdict = is_alone ? ArmVerdict::Unresolved : judge(f.ratio, f.null, report.n_rounds);
      report.figures.push_back(f);
    }
  }
  return report;
}

ArmsReport run_arms(const ArmsRun& run) {
  check_flags(run.arms, run.earlier);
  std::vector<OrderedJson> rows = run.earlier;
  const Observations earlier = observations_of(run.earlier);
  for (size_t round = 0; round < run.n_rounds; ++round) {
    for (const size_t i : round_order(run.arms.size(), round)) {
      const BenchArm& arm = run.arms[i];
      const auto there = earlier.find(round);
      if (there != earlier.end() && there->second.contains(arm.name)) continue;
      if (run.stop && run.stop()) return report_arms(run.arms, std::move(rows));
      std::vector<OrderedJson> measured = run.measure(arm, round);
      if (measured.empty()) {
        measured.push_back(empty_bench_row());
        measured.back()["test"] = "none";
        measured.back()["status"] = "FAIL:no_output";
      }
      for (OrderedJson& row : measured) {
        row["arm"] = arm.name;
        row["round"] = round;
        row["flags"] = arm.flags;
        if (run.on_row) run.on_row(row);
        rows.push_back(std::move(row));
      }
    }
  }
  return report_arms(run.arms, std::move(rows));
}

std::string arms_text(const ArmsReport& r) {
  std::string out = fmt::format("base {}; {} rounds counted, {} dropped\n\n", r.arms[0].name, r.n_rounds, r.n_dropped);
  out += "| metric | arm | tok/s base | tok/s arm | ratio to base (interval) | null arm (interval) | verdict |\n";
  out += "|---|---|---:|---:|---|---|---|\n";
  for (const ArmFigures& f : r.figures) {
    out += fmt::format("| {} | {} | {:.2f} | {:.2f} | {} | {} | {} |\n", f.metric, f.arm, f.base_median, f.arm_median,
                       ratio_text(f.ratio), ratio_text(f.null), arm_verdict_name(f.verdict));
  }
  if (!r.figures.empty()) {
    out += fmt::format("\nintervals: order statistics of the rounds' ratios, {:.1f} % for the median\n",
                       100 * r.figures[0].ratio.coverage);
  }
  if (r.n_rounds < kFewestRounds) out += fmt::format("under {} rounds nothing is resolved\n", kFewestRounds);
  return out;
}

OrderedJson arms_json(const ArmsReport& r) {
  OrderedJson figures = OrderedJson::array(), arms = OrderedJson::array();
  for (const BenchArm& a : r.arms) arms.push_back({{"name", a.name}, {"flags", a.flags}});
  for (const ArmFigures& f : r.figures) {
    figures.push_back({{"metric", f.metric},
                       {"arm", f.arm},
                       {"base_median", f.base_median},
                       {"arm_median", f.arm_median},
                       {"ratio", ratio_json(f.ratio)},
                       {"null", ratio_json(f.null)},
                       {"verdict", arm_verdict_name(f.verdict)}});
  }
  return {{"schema", "loft.bench/1"},   {"arms", arms},       {"rounds", r.n_rounds}, {"dropped", r.n_dropped},
          {"contended", r.n_contended}, {"figures", figures}, {"results", r.rows}};
}

double parse_gate(const std::string& text) {
  double pct = 0;
  if (text == "slower") return pct;
  constexpr std::string_view kPrefix = "slower:";
  if (text.starts_with(kPrefix) && Real::parse(text.substr(kPrefix.size()), pct)) return pct;
  fail(Code::BadRequest, "--fail-on: found '{}', wanted slower or slower:PERCENT", text);
}

int arms_exit_status(const ArmsReport& r, std::optional<double> gate_pct) {
  const size_t n_all = r.n_rounds + r.n_dropped;
  const bool is_disturbed = r.n_dropped > 0 && r.n_contended == r.n_dropped;
  if (5 * r.n_dropped > n_all || r.n_rounds == 0) return is_disturbed ? 75 : 5;
  if (!gate_pct) return 0;
  for (const ArmFigures& f : r.figures) {
    if (f.verdict == ArmVerdict::Slower && f.ratio.median < 1 - *gate_pct / 100) return 1;
  }
  return r.n_rounds < kFewestRounds ? 6 : 0;
}

}  // namespace loft
