// measure: rows of loft.bench.qmm/1 as a table for people, and as the m from which each row was the fastest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "measure/bench_formats.h"
#include "measure/bench_qmm.h"
#include "measure/bench_row.h"

namespace loft {
namespace {

std::string shape_text(const OrderedJson& row) {
  return fmt::format("{} {} {:.0f}x{:.0f}", row_text(row, "format"), row_text(row, "x_dtype"), row_number(row, "n"),
                     row_number(row, "k"));
}

}  // namespace

std::string qmm_md_text(std::span<const OrderedJson> rows) {
  std::string out =
      "| product | m | kernel | route | us | GB/s | of ceiling | TFLOP/s | error |\n"
      "|---|---:|---|---|---:|---:|---:|---:|---:|\n";
  for (const OrderedJson& row : rows) {
    const bool chosen = row.contains("chosen") && row["chosen"] == true;
    const std::string status = row_is_ok(row) ? "" : " " + row_text(row, "status");
    const std::string share =
        row_number(row, "share") > 0 ? fmt::format("{:.0f} %", 100 * row_number(row, "share")) : std::string("-");
    out += fmt::format("| {} | {:.0f} | {}{} | {} | {} | {:.1f} | {} | {:.3f} | {:.1e}{} |\n", shape_text(row),
                       row_number(row, "m"), row_text(row, "kernel"), chosen ? " *" : "", row_text(row, "route"),
                       spread_text(row_number(row, "median_us"), row_number(row, "min_us"), row_number(row, "max_us")),
                       row_number(row, "gbps"), share, row_number(row, "tflops"), row_number(row, "error"), status);
  }
  if (rows.empty()) return out;
  out +=
      "\n* the row that routing takes. us: median (range) of a call; GB/s: weight, x and y once a call; error: "
      "largest\n"
      "|y - truth| as a share of the sum of |x| |w|.";
  if (row_number(rows[0], "ceiling_gbps") > 0)
    out += fmt::format(" Ceiling: {:.1f} GB/s, a streaming read of this process.", row_number(rows[0], "ceiling_gbps"));
  return out + "\n";
}

std::string fit_routes_text(std::span<const OrderedJson> rows, const std::string& command) {
  // By product, then m: the fastest row.
  std::map<std::string, std::map<int64_t, const OrderedJson*>> best;
  for (const OrderedJson& row : rows) {
    if (!row_is_ok(row)) continue;
    const OrderedJson*& now = best[shape_text(row)][int64_t(row_number(row, "m"))];
    if (!now || row_number(row, "median_us") < row_number(*now, "median_us")) now = &row;
  }
  std::string out = fmt::format("// {}\n// {}\n", command, rows.empty() ? "" : row_text(rows[0], "cpu_info"));
  for (const auto& [product, by_m] : best) {
    std::vector<std::string> parts;
    std::string last;
    for (const auto& [m, row] : by_m) {
      const std::string kernel = row_text(*row, "kernel");
      if (kernel != last) parts.push_back(fmt::format("m >= {}: {}", m, kernel));
      last = kernel;
    }
    out += fmt::format("// {}: {}\n", product, fmt::join(parts, "; "));
  }
  return out;
}

}  // namespace loft
