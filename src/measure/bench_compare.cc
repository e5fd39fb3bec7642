#include "measure/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/options.h"
#include "measure/bench_row.h"

namespace loft {
namespace {

constexpr double kCoverage = 0.95;

OrderedJson member(const OrderedJson& row, const char* key) {
  const auto it = row.find(key);
  return it == row.end() ? OrderedJson(nullptr) : *it;
}
std::string text_of(const OrderedJson& row, const char* key, const char* inner) {
  const OrderedJson outer = member(row, key);
  return outer.is_object() ? dump_json(member(outer, inner)) : std::string("null");
}

std::string settings_of(const OrderedJson& row) {
  std::string out = fmt::format("b{:.0f} t{:.0f} np{:.0f}", row_number(row, "n_batch"), row_number(row, "n_threads"),
                                row_number(row, "n_seqs"));
  const OrderedJson options = member(row, "options");
  if (!options.is_array()) return out;
  for (const OrderedJson& o : options) out += fmt::format(" {}={}", row_text(o, "name"), row_text(o, "value"));
  return out;
}

/// What makes two rows the same work on the same kind of device.
std::string key_of(const OrderedJson& row) {
  return fmt::format("{} {} {} {} {} {}", row_text(row, "model_id"), row_text(row, "quant"),
                     text_of(row, "device", "name"), row_text(row, "test"), settings_of(row), row_text(row, "arm"));
}

std::string name_of(const OrderedJson& row) {
  const std::string path = row_text(row, "model_filename");
  return fmt::format("{} {} ({})", path.substr(path.find_last_of('/') + 1), row_text(row, "test"), settings_of(row));
}

/// Why two rows of one key say nothing about each other; empty: they do.
std::string reason_against(const OrderedJson& a, const OrderedJson& b, bool allow_commit_change) {
  if (!row_is_ok(a) || !row_is_ok(b))
    return fmt::format("status {} and {}", row_text(a, "status"), row_text(b, "status"));
  for (const char* key : {"name", "cpu", "kernel", "ram"}) {
    if (text_of(a, "host", key) != text_of(b, "host", key)) return fmt::format("host {} differs", key);
  }
  if (text_of(a, "build", "type") != text_of(b, "build", "type")) return "build type differs";
  if (member(a, "guard").is_null() != member(b, "guard").is_null()) return "one was guarded, the other was not";
  if (member(a, "prompt_id") != member(b, "prompt_id")) return "prompt ids differ";
  if (!allow_commit_change && member(a, "build_commit") != member(b, "build_commit"))
    return "commit differs (--allow-commit-change)";
  return {};
}

std::vector<double> samples_of(const OrderedJson& row) {
  std::vector<double> out;
  const OrderedJson samples = member(row, "samples_ts");
  if (!samples.is_array()) return out;
  for (const OrderedJson& s : samples) {
    if (s.is_number()) out.push_back(s.get<double>());
  }
  return out;
}

OrderedJson kernels_of(const OrderedJson& row) {
  const OrderedJson qmm = member(row, "qmm");
  if (!qmm.is_object() || !qmm.contains("passes") || qmm["passes"].empty()) return nullptr;
  return member(qmm["passes"][0], "kernels");
}

double peak_of(const OrderedJson& row) {
  const OrderedJson mem = member(row, "mem");
  return mem.is_object() && mem.contains("measured") ? row_number(mem["measured"], "peak_bytes") : 0;
}

BenchPair pair_of(const OrderedJson& a, const OrderedJson& b) {
  BenchPair p{.name = name_of(a), .old_ts = row_number(a, "median_ts"), .new_ts = row_number(b, "median_ts")};
  if (p.old_ts > 0) p.ratio = p.new_ts / p.old_ts;
  const std::vector<double> old_samples = samples_of(a), new_samples = samples_of(b);
  p.shift = shift_between(old_samples, new_samples);
  p.peak_change_bytes = peak_of(b) - peak_of(a);
  p.same_kernels = kernels_of(a) == kernels_of(b);
  p.differs = p.shift.coverage >= kCoverage && (p.shift.lo > 0 || p.shift.hi < 0);
  return p;
}

std::optional<std::chrono::sys_days> date_of(const std::string& text) {
  uint64_t y = 0, m = 0, d = 0;
  if (text.size() < 10 || text[4] != '-' || text[7] != '-' || !parse_whole(text.substr(0, 4), 1, 9999, y) ||
      !parse_whole(text.substr(5, 2), 1, 12, m) || !parse_whole(text.substr(8, 2), 1, 31, d)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(int(y)), std::chrono::month(unsigned(m)),
                                         std::chrono::day(unsigned(d))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

}  // namespace

std::optional<int64_t> days_between(const std::string& from, const std::string& to) {
  const auto a = date_of(from), b = date_of(to);
  if (!a || !b) return std::nullopt;
  return (*b - *a).count();
}

BenchComparison compare_benches(std::span<const OrderedJson> old_rows, std::span<const OrderedJson> new_rows,
                                bool allow_commit_change) {
  BenchComparison out;
  std::map<std::string, const OrderedJson*> by_key;
  for (const OrderedJson& row : new_rows) by_key[key_of(row)] = &row;
  for (const OrderedJson& row : old_rows) {
    const auto it = by_key.find(key_of(row));
    if (it == by_key.end()) {
      out.only_old.push_back(name_of(row));
      continue;
    }
    const std::string reason = reason_against(row, *it->second, allow_commit_change);
    if (reason.empty()) {
      out.pairs.push_back(pair_of(row, *it->second));
    } else {
      out.dropped.push_back(name_of(row) + ": " + reason);
    }
    by_key.erase(it);
  }
  for (const OrderedJson& row : new_rows) {
    if (by_key.contains(key_of(row))) out.only_new.push_back(name_of(row));
  }
  if (!old_rows.empty() && !new_rows.empty())
    out.days_apart = days_between(row_text(old_rows[0], "test_time"), row_text(new_rows[0], "test_time"));
  return out;
}

std::string bench_comparison_text(const BenchComparison& c) {
  std::string out =
      "| test | old tok/s | new tok/s | ratio | shift (interval) | peak MB | kernels | verdict |\n"
      "|---|---:|---:|---:|---|---:|---|---|\n";
  for (const BenchPair& p : c.pairs) {
    out +=
        fmt::format("| {} | {:.2f} | {:.2f} | {:.4f} | {:+.2f} ({:+.2f} to {:+.2f}, {:.1f} %) | {:+.2f} | {} | {} |\n",
                    p.name, p.old_ts, p.new_ts, p.ratio, p.shift.shift, p.shift.lo, p.shift.hi, 100 * p.shift.coverage,
                    p.peak_change_bytes * 1e-6, p.same_kernels ? "same" : "differ",
                    p.differs ? "differs (unpaired)" : "no difference shown");
  }
  const auto list = [&](const char* title, const std::vector<std::string>& names) {
    for (const std::string& n : names) out += fmt::format("{}: {}\n", title, n);
  };
  out += "\n";
  list("dropped", c.dropped);
  list("only in old", c.only_old);
  list("only in new", c.only_new);
  if (c.days_apart) out += fmt::format("{} days apart\n", *c.days_apart);
  return out + "Runs that were not interleaved do not tell a change from the machine's drift; --arm does.\n";
}

OrderedJson bench_comparison_json(const BenchComparison& c) {
  OrderedJson pairs = OrderedJson::array();
  for (const BenchPair& p : c.pairs) {
    pairs.push_back({{"test", p.name},
                     {"old_ts", p.old_ts},
                     {"new_ts", p.new_ts},
                     {"ratio", p.ratio},
                     {"shift", p.shift.shift},
                     {"shift_lo", p.shift.lo},
                     {"shift_hi", p.shift.hi},
                     {"coverage", p.shift.coverage},
                     {"peak_change_bytes", p.peak_change_bytes},
                     {"same_kernels", p.same_kernels},
                     {"differs", p.differs}});
  }
  return {{"schema", "loft.bench.compare/1"},
          {"pairs", pairs},
          {"dropped", c.dropped},
          {"only_old", c.only_old},
          {"only_new", c.only_new},
          {"days_apart", c.days_apart ? OrderedJson(*c.days_apart) : OrderedJson(nullptr)}};
}

int bench_comparison_status(const BenchComparison& c, std::optional<double> gate_pct) {
  if (!gate_pct) return 0;
  bool is_judged = false;
  for (const BenchPair& p : c.pairs) {
    if (p.shift.coverage < kCoverage || p.old_ts <= 0) continue;
    is_judged = true;
    if (p.shift.hi < 0 && 100 * p.shift.hi / p.old_ts < -*gate_pct) return 1;
  }
  return is_judged ? 0 : 6;
}

}  // namespace loft
