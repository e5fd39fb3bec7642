#include "measure/bench_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measure/bench_formats.h"
#include "measure/bench_row.h"

namespace loft {
namespace {

constexpr double kCovered = 0.95;  // of a pass: less is told as a row of its own

OrderedJson figure(double value, bool has_meaning) {
  return has_meaning ? json_number(value) : OrderedJson(nullptr);
}

OrderedJson time_json(const OpTime& t, double pass_ns, const Ceiling& ceiling) {
  const double gbps = t.ns > 0 ? t.bytes / t.ns : 0;
  return {{"kernel", t.name},
          {"route", t.route.empty() ? OrderedJson(nullptr) : OrderedJson(t.route)},
          {"calls", t.calls},
          {"ms", json_number(t.ns * 1e-6)},
          {"share", json_number(pass_ns > 0 ? t.ns / pass_ns : 0)},
          {"gb", figure(t.bytes * 1e-9, t.bytes > 0)},
          {"gbps", figure(gbps, t.bytes > 0)},
          {"share_of_ceiling", figure(ceiling.gbps > 0 ? gbps / ceiling.gbps : 0, t.bytes > 0 && ceiling.gbps > 0)},
          {"tflops", figure(t.ns > 0 ? t.flops / t.ns * 1e-3 : 0, t.flops > 0)}};
}

std::string cell(const OrderedJson& row, const char* key, const char* format, double factor = 1) {
  const OrderedJson& value = row[key];
  return value.is_number() ? fmt::format(fmt::runtime(format), factor * value.get<double>()) : "-";
}

}  // namespace

OrderedJson kernels_json(const KernelPass& pass, const Ceiling& ceiling) {
  OrderedJson rows = OrderedJson::array();
  double covered = 0;
  for (const OpTime& t : pass.times) {
    covered += t.ns;
    rows.push_back(time_json(t, pass.ns, ceiling));
  }
  const double share = pass.ns > 0 ? covered / pass.ns : 1;
  if (share < kCovered) rows.push_back(time_json({.name = "unattributed", .ns = pass.ns - covered}, pass.ns, ceiling));
  return {{"ms", json_number(pass.ns * 1e-6)}, {"covered", json_number(share)}, {"rows", rows}};
}

std::string kernels_text(const OrderedJson& kernels) {
  if (!kernels.is_object()) return {};
  std::vector<MdColumn> columns = {{"kernel or op"},      {"route"},    {"calls", true}, {"ms", true},
                                   {"of the pass", true}, {"GB", true}, {"GB/s", true},  {"of ceiling", true},
                                   {"TFLOP/s", true}};
  for (const OrderedJson& row : kernels["rows"]) {
    const std::string cells[] = {row_text(row, "kernel"),
                                 row["route"].is_null() ? "-" : row_text(row, "route"),
                                 row["calls"] == 0 ? "-" : cell(row, "calls", "{:.0f}"),
                                 cell(row, "ms", "{:.3f}"),
                                 cell(row, "share", "{:.1f} %", 100),
                                 cell(row, "gb", "{:.4f}"),
                                 cell(row, "gbps", "{:.1f}"),
                                 cell(row, "share_of_ceiling", "{:.0f} %", 100),
                                 cell(row, "tflops", "{:.3f}")};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
  }
  return fmt::format("one more pass, {:.3f} ms, by call:\n\n{}", row_number(kernels, "ms"),
                     md_table(std::move(columns)));
}

}  // namespace loft
