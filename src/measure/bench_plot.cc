// measure: from rows to series.
#include "measure/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "measure/bench_row.h"
#include "measure/bench_stats.h"

namespace loft {
namespace {

bool is_product(const OrderedJson& row) {
  return row.contains("kernel");
}

std::string last_part(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string kind_of_test(const OrderedJson& row) {
  const bool p = row_number(row, "n_prompt") > 0, n = row_number(row, "n_gen") > 0;
  return p && n ? "prompt and answer" : p ? "prefill" : "decode";
}

std::string threads_text(const OrderedJson& row) {
  const double n = row_number(row, "n_threads");
  return fmt::format("{:.0f} thread{}", n, n == 1 ? "" : "s");
}

/// What tells one series from another, part by part.
std::vector<std::string> parts_of(const OrderedJson& row, const std::string& x) {
  if (is_product(row)) {
    return {fmt::format("{:.0f}x{:.0f}", row_number(row, "n"), row_number(row, "k")), row_text(row, "format"),
            row_text(row, "x_dtype"), row_text(row, "kernel"), x == "threads" ? "" : threads_text(row)};
  }
  std::vector<std::string> parts = {last_part(row_text(row, "model_filename")), row_text(row, "arm"),
                                    kind_of_test(row)};
  if (x != "n_prompt" && x != "M") parts.push_back(row_text(row, "test").substr(0, row_text(row, "test").find(" @")));
  if (x != "depth") parts.push_back(fmt::format("depth {:.0f}", row_number(row, "n_depth")));
  if (x != "threads") parts.push_back(threads_text(row));
  if (row.contains("options") && row["options"].is_array()) {
    for (const OrderedJson& o : row["options"])
      parts.push_back(fmt::format("{}={}", row_text(o, "name"), row_text(o, "value")));
  }
  return parts;
}

double rows_of_forward(const OrderedJson& row) {
  if (is_product(row)) return row_number(row, "m");
  const double p = row_number(row, "n_prompt");
  return p > 0 ? std::min(p, row_number(row, "n_batch", p)) : row_number(row, "n_seqs", 1);
}

struct Axis {
  const char* word;
  const char* label;
  std::function<double(const OrderedJson&)> value;
};

const std::vector<Axis>& x_axes() {
  static const std::vector<Axis> axes = {
      {"M", "rows of a forward (M)", rows_of_forward},
      {"depth", "tokens in the cache before", [](const OrderedJson& r) { return row_number(r, "n_depth", -1); }},
      {"n_prompt", "prompt tokens", [](const OrderedJson& r) { return row_number(r, "n_prompt", -1); }},
      {"threads", "threads", [](const OrderedJson& r) { return row_number(r, "n_threads", -1); }}};
  return axes;
}

double peak_gb(const OrderedJson& row) {
  const auto mem = row.find("mem");
  if (mem == row.end() || !mem->is_object() || !mem->contains("measured")) return -1;
  return row_number((*mem)["measured"], "peak_bytes", -1) * 1e-9;
}

const std::vector<Axis>& y_axes() {
  const auto key = [](const char* name) { return [name](const OrderedJson& r) { return row_number(r, name, -1); }; };
  static const std::vector<Axis> axes = {{"ts", "tokens a second", key("median_ts")},
                                         {"gbps", "GB/s", key("gbps")},
                                         {"tflops", "TFLOP/s", key("tflops")},
                                         {"share", "share of the ceiling", key("share")},
                                         {"mem", "peak GB", peak_gb},
                                         {"us", "microseconds a call", key("median_us")}};
  return axes;
}

const Axis& axis_named(const std::vector<Axis>& axes, const std::string& word, const char* flag) {
  std::string known;
  for (const Axis& a : axes) {
    if (word == a.word) return a;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", a.word);
  }
  fail(Code::BadRequest, "{}: found '{}', wanted one of {}", flag, word, known);
}

/// Range of y from the range of times or rates: figures that follow from the time share its relative range.
std::pair<double, double> range_of(const OrderedJson& row, const std::string& y, double value) {
  if (y == "mem") return {value, value};
  const bool is_time = is_product(row);
  const double median = row_number(row, is_time ? "median_us" : "median_ts");
  const double lo = row_number(row, is_time ? "min_us" : "min_ts"), hi = row_number(row, is_time ? "max_us" : "max_ts");
  if (median <= 0 || lo <= 0) return {value, value};
  if (is_time && y != "us") return {value * median / hi, value * median / lo};
  return {value * lo / median, value * hi / median};
}

struct Values {
  std::vector<double> medians;
  double lo = 0, hi = 0;
};

}  // namespace

Plot plot_rows(std::span<const OrderedJson> rows, const std::string& x, const std::string& y, const std::string& log) {
  const Axis& along = axis_named(x_axes(), x, "--x");
  const Axis& up = axis_named(y_axes(), y, "--y");
  if (log != "" && log != "x" && log != "y" && log != "xy")
    fail(Code::BadRequest, "--log: found '{}', wanted x, y or xy", log);
  Plot plot{.title = {},
            .x_label = along.label,
            .y_label = up.label,
            .log_x = log.find('x') != log.npos,
            .log_y = log.find('y') != log.npos,
            .ceiling = {},
            .series = {}};
  struct Found {
    std::vector<std::string> parts;
    double x, y, lo, hi;
  };
  std::vector<Found> found;
  for (const OrderedJson& row : rows) {
    const double at = along.value(row), value = up.value(row);
    if (!row_is_ok(row) || at < 0 || value < 0 || (plot.log_x && at <= 0) || (plot.log_y && value <= 0)) continue;
    const auto [lo, hi] = range_of(row, y, value);
    found.push_back({parts_of(row, x), at, value, lo, hi});
    const double ceiling = y == "gbps" ? row_number(row, "ceiling_gbps") : y == "share" ? 1 : 0;
    if (ceiling > 0) plot.ceiling = std::max(plot.ceiling.value_or(0), ceiling);
  }
  if (found.empty()) fail(Code::NotFound, "no row has both {} and {}", x, y);
  // Parts that are the same in every row say nothing in a legend.
  const size_t n_parts = std::max_element(found.begin(), found.end(), [](const Found& a, const Found& b) {
                           return a.parts.size() < b.parts.size();
                         })->parts.size();
  std::vector<bool> varies(n_parts, false);
  for (Found& f : found) f.parts.resize(n_parts);
  for (size_t i = 0; i < n_parts; ++i) {
    varies[i] =
        std::any_of(found.begin(), found.end(), [&](const Found& f) { return f.parts[i] != found[0].parts[i]; });
    if (!varies[i] && !found[0].parts[i].empty()) plot.title += (plot.title.empty() ? "" : ", ") + found[0].parts[i];
  }
  std::map<std::string, std::map<double, Values>> series;
  for (const Found& f : found) {
    std::string name;
    for (size_t i = 0; i < n_parts; ++i) {
      if (varies[i] && !f.parts[i].empty()) name += (name.empty() ? "" : ", ") + f.parts[i];
    }
    Values& v = series[name][f.x];
    v.lo = v.medians.empty() ? f.lo : std::min(v.lo, f.lo);
    v.hi = v.medians.empty() ? f.hi : std::max(v.hi, f.hi);
    v.medians.push_back(f.y);
  }
  for (const auto& [name, by_x] : series) {
    PlotSeries s{.name = name, .points = {}};
    for (const auto& [at, v] : by_x) s.points.push_back({at, median_of(v.medians), v.lo, v.hi});
    plot.series.push_back(std::move(s));
  }
  return plot;
}

std::string dat_text(const Plot& plot) {
  std::string out = fmt::format("# {}\n# x: {}  y: {}\n", plot.title, plot.x_label, plot.y_label);
  for (const PlotSeries& s : plot.series) {
    out += fmt::format("\n\n# {}\n", s.name);
    for (const PlotPoint& p : s.points) out += fmt::format("{:.6g} {:.6g} {:.6g} {:.6g}\n", p.x, p.y, p.lo, p.hi);
  }
  return out;
}

}  // namespace loft
