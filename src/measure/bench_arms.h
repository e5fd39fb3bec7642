// measure: one experiment with several arms, interleaved. Rounds run every arm once in a balanced order; the first arm
// is the base, and its repeat, the null arm, shows what the machine alone makes of equal work. Pure but for the
// callback that measures.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace loft {

struct BenchArm {
  std::string name;
  std::string flags;               // as written
  std::vector<std::string> words;  // the same, split
  size_t source = 0;               // the arm whose repeat this is; itself for an arm of the user
};

/// The arms of NAME=FLAGS texts, and behind them `<base>-null`, or with null_every_arm a null for each. Errors:
/// BadRequest for a text without a name, a name twice, a name with other characters than letters, digits, '.', '_',
/// '-', or one that ends in "-null".
std::vector<BenchArm> parse_arms(const std::vector<std::string>& texts, bool null_every_arm);

/// The order of a round: all permutations in turn up to three arms, so that over a cycle each arm stands equally often
/// at each place and behind each other arm; beyond that rotations of a shuffle, seeded anew each cycle.
std::vector<size_t> round_order(size_t n_arms, size_t round);

/// What a round's rows say, by metric: "pp512", "pp512+tg128: answer", with the model where there are several.
std::map<std::string, double> arm_metrics(const std::vector<OrderedJson>& rows);

enum class ArmVerdict : uint8_t { Unresolved, Faster, Slower };
const char* arm_verdict_name(ArmVerdict verdict);

/// The median of ratios to the base, one a round, and its order-statistic interval.
struct RatioFigures {
  double median = 1, lo = 1, hi = 1, coverage = 0;
};
RatioFigures ratio_figures(const std::vector<double>& ratios);

/// Rounds below which no verdict is given: their widest interval covers less than 95 %.
inline constexpr size_t kFewestRounds = 6;

/// Faster or slower only where the arm's interval excludes 1, the null's includes 1, and the arm's median is farther
/// from 1 than the null's.
ArmVerdict judge(const RatioFigures& arm, const RatioFigures& null, size_t n_rounds);

struct ArmFigures {
  std::string metric, arm;
  double base_median = 0, arm_median = 0;  // of the rounds' observations
  RatioFigures ratio{}, null{};
  ArmVerdict verdict = ArmVerdict::Unresolved;
};

struct ArmsReport {
  std::vector<BenchArm> arms;
  size_t n_rounds = 0;     // that count
  size_t n_dropped = 0;    // because an arm failed
  size_t n_contended = 0;  // of these: only because the machine was disturbed
  std::vector<ArmFigures> figures;
  std::vector<OrderedJson> rows;  // all rows, with arm and round
};

struct ArmsRun {
  std::vector<BenchArm> arms;
  size_t n_rounds = 12;
  std::vector<OrderedJson> earlier;  // rows of an experiment that is resumed
  std::function<bool()> stop = {};   // true: end after what is there
  /// Measures one arm once. Rows that are not ok, or none, drop the round.
  std::function<std::vector<OrderedJson>(const BenchArm& arm, size_t round)> measure;
  std::function<void(const OrderedJson& row)> on_row = {};  // each new row, arm and round set
};

/// Runs what `earlier` lacks and judges all of it. Error: BadRequest when earlier rows of an arm had other flags.
ArmsReport run_arms(const ArmsRun& run);
/// The figures of rows that are there.
ArmsReport report_arms(const std::vector<BenchArm>& arms, std::vector<OrderedJson> rows);

std::string arms_text(const ArmsReport& report);
OrderedJson arms_json(const ArmsReport& report);

/// "slower" or "slower:PCT". Error: BadRequest.
double parse_gate(const std::string& text);
/// When more than a fifth of the rounds was dropped: 75 when all of those were only disturbed, else 5. 1 when an arm is
/// slower by more than pct percent; 6 when there were too few rounds to judge; else 0.
int arms_exit_status(const ArmsReport& report, std::optional<double> gate_pct);

}  // namespace loft
