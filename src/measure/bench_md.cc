// measure: the form that people read: one table, and below it what stands behind its numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "measure/bench_formats.h"
#include "measure/bench_kernels.h"
#include "measure/bench_row.h"

namespace loft {
namespace {

/// One line of the table: a row, or one of the two rates of a row that has both.
struct Line {
  const OrderedJson& row;
  std::string test;
  std::string rate;
};

std::string rate_text(const OrderedJson& rate) {
  return rate.is_object() ? spread_text(row_number(rate, "median"), row_number(rate, "min"), row_number(rate, "max"))
                          : std::string("-");
}

void add_lines(const OrderedJson& row, std::vector<Line>& out) {
  const std::string test = row_text(row, "test");
  if (!row_is_ok(row)) return out.push_back({row, test, row_text(row, "status")});
  const bool joint = row["pp_ts"].is_object() && row["tg_ts"].is_object();
  if (joint) {
    out.push_back({row, test + ": prompt", rate_text(row["pp_ts"])});
    out.push_back({row, test + ": answer", rate_text(row["tg_ts"])});
  }
  out.push_back({row, joint ? test + ": both" : test,
                 spread_text(row_number(row, "median_ts"), row_number(row, "min_ts"), row_number(row, "max_ts"))});
}

struct Column {
  const char* name;
  bool is_number;
  bool only_if_varied;  // left out where every row says the same
  std::function<std::string(const Line&)> text;
};

std::string whole(const OrderedJson& row, const char* key) {
  const double value = row_number(row, key, -1);
  return value < 0 ? "-" : fmt::format("{:.0f}", value);
}

std::string model_name(const OrderedJson& row) {
  std::string path = row_text(row, "model_filename");
  while (path.ends_with('/')) path.pop_back();
  return path.substr(path.find_last_of('/') + 1);
}

std::string options_text(const OrderedJson& row) {
  std::string out;
  if (!row.contains("options") || !row["options"].is_array()) return out;
  for (const OrderedJson& o : row["options"]) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", row_text(o, "name"), row_text(o, "value"));
  }
  return out;
}

double peak_bytes(const OrderedJson& row) {
  double peak = 0;
  if (!row.contains("mem") || !row["mem"].is_object()) return peak;
  for (const char* phase : {"load", "warmup", "measured"}) {
    if (row["mem"].contains(phase)) peak = std::max(peak, row_number(row["mem"][phase], "peak_bytes"));
  }
  return peak;
}

std::vector<Column> columns() {
  const auto number = [](const char* key) { return [key](const Line& l) { return whole(l.row, key); }; };
  return {
      {"model", false, false, [](const Line& l) { return model_name(l.row); }},
      {"format", false, false, [](const Line& l) { return row_text(l.row, "quant"); }},
      {"size", true, false,
       [](const Line& l) { return fmt::format("{:.1f} MiB", row_number(l.row, "model_size") / double(1 << 20)); }},
      {"device", false, false,
       [](const Line& l) {
         return l.row.contains("device") && l.row["device"].is_object() ? row_text(l.row["device"], "name") : "-";
       }},
      {"threads", true, false, number("n_threads")},
      {"batch", true, true, number("n_batch")},
      {"seqs", true, true, number("n_seqs")},
      {"options", false, true, [](const Line& l) { return options_text(l.row); }},
      {"test", false, false, [](const Line& l) { return l.test; }},
      {"tok/s", true, false, [](const Line& l) { return l.rate; }},
      {"GB/s", true, false,
       [](const Line& l) { return row_is_ok(l.row) ? fmt::format("{:.1f}", row_number(l.row, "gbps")) : "-"; }},
      {"of ceiling", true, false,
       [](const Line& l) {
         return row_number(l.row, "share") > 0 ? fmt::format("{:.0f} %", 100 * row_number(l.row, "share")) : "-";
       }},
      {"TFLOP/s", true, false,
       [](const Line& l) { return row_is_ok(l.row) ? fmt::format("{:.3f}", row_number(l.row, "tflops")) : "-"; }},
      {"peak GB", true, false, [](const Line& l) { return fmt::format("{:.3f}", peak_bytes(l.row) * 1e-9); }},
  };
}

std::string table(const std::vector<Line>& lines) {
  std::vector<MdColumn> out;
  for (const Column& column : columns()) {
    MdColumn md{.title = column.name, .is_number = column.is_number};
    for (const Line& line : lines) md.cells.push_back(column.text(line));
    const bool is_varied =
        std::adjacent_find(md.cells.begin(), md.cells.end(), std::not_equal_to<>()) != md.cells.end();
    if (is_varied || !column.only_if_varied) out.push_back(std::move(md));
  }
  return md_table(std::move(out));
}

// Two decimals as the published lines have them; more where those would say nothing.
std::string gigabytes(double bytes) {
  return fmt::format("{:.{}f}", bytes * 1e-9, bytes < 1e9 ? 4 : 2);
}

std::string memory_text(const OrderedJson& mem) {
  constexpr std::pair<const char*, const char*> kPhases[] = {{"load", "after load"},
                                                             {"warmup", "after warmup (prefill + warmup tokens)"},
                                                             {"measured", "after measured pass"}};
  std::string out;
  for (const auto& [key, name] : kPhases) {
    if (!mem.contains(key)) continue;
    const OrderedJson& p = mem[key];
    out += fmt::format("[Memory] {}: active {} GB, cache {} GB, phase peak {} GB\n", name,
                       gigabytes(row_number(p, "active_bytes")), gigabytes(row_number(p, "cache_bytes")),
                       gigabytes(row_number(p, "peak_bytes")));
  }
  if (!mem.contains("process")) return out;
  const OrderedJson& p = mem["process"];
  return out + fmt::format("[Memory] process: resident {} GB, of that mapped files {} GB, peak {} GB\n",
                           gigabytes(row_number(p, "resident_bytes")), gigabytes(row_number(p, "mapped_bytes")),
                           gigabytes(row_number(p, "peak_resident_bytes")));
}

std::string counters_text(const OrderedJson& qmm) {
  std::vector<std::string> kernels;
  for (const auto& [name, count] : qmm["kernels"].items())
    kernels.push_back(fmt::format("{} {}", name, count.get<uint64_t>()));
  const OrderedJson& c = qmm["cache"];
  std::string out = fmt::format("kernels (with warm-up): {}\n", fmt::join(kernels, ", "));
  const char* const keys[] = {"hits", "misses", "inserts", "evictions", "bypasses", "entries", "bytes"};
  std::vector<std::string> counts;
  for (const char* key : keys) counts.push_back(fmt::format("{} {:.0f}", key, row_number(c, key)));
  return out + fmt::format("cache of dequantized weights: {}\n", fmt::join(counts, ", "));
}

// Of the last pass: a pass is like another once everything is there.
std::string device_counters_text(const OrderedJson& counters) {
  if (!counters.is_object() || counters["passes"].empty()) return {};
  const OrderedJson& last = counters["passes"].back();
  return fmt::format("a pass: allocations {:.0f}, copies between host and device {:.0f}, launches {:.0f}\n",
                     row_number(last, "allocations"), row_number(last, "copies"), row_number(last, "launches"));
}

}  // namespace

std::string spread_text(double median, double min, double max) {
  return min == max ? fmt::format("{:.2f}", median) : fmt::format("{:.2f} ({:.2f}-{:.2f})", median, min, max);
}

std::string md_table(std::vector<MdColumn> columns) {
  std::string title = "|", rule = "|";
  std::vector<std::string> lines(columns.empty() ? 0 : columns[0].cells.size(), "|");
  for (const MdColumn& c : columns) {
    size_t width = std::max<size_t>(3, c.title.size());
    for (const std::string& text : c.cells) width = std::max(width, text.size());
    const auto padded = [&](const std::string& text) {
      return c.is_number ? fmt::format(" {:>{}} |", text, width) : fmt::format(" {:<{}} |", text, width);
    };
    title += padded(c.title);
    rule += fmt::format(" {}{} |", std::string(width - 1, '-'), c.is_number ? ':' : '-');
    for (size_t i = 0; i < lines.size(); ++i) lines[i] += padded(c.cells[i]);
  }
  return fmt::format("{}\n{}\n{}{}", title, rule, fmt::join(lines, "\n"), lines.empty() ? "" : "\n");
}

std::string md_text(std::span<const OrderedJson> rows) {
  if (rows.empty()) return {};
  std::vector<Line> lines;
  for (const OrderedJson& row : rows) add_lines(row, lines);
  std::string out = table(lines);
  for (const OrderedJson& row : rows) {
    out += fmt::format("\n{} {}: ", model_name(row), row_text(row, "test"));
    if (!row_is_ok(row)) {
      out += fmt::format("{}: {}\n", row_text(row, "status"), row_text(row, "error"));
      continue;
    }
    out += fmt::format("{} passes{}, ceiling {}\n", row["samples_ts"].size(),
                       row["warmup"] == true ? " after a discarded one" : ", no warm-up",
                       row_number(row, "ceiling_gbps") > 0 ? fmt::format("{:.1f} GB/s", row_number(row, "ceiling_gbps"))
                                                           : std::string("off"));
    out += memory_text(row["mem"]);
    out += counters_text(row["qmm"]);
    out += device_counters_text(row.value("counters", OrderedJson()));
    out += kernels_text(row.value("kernels", OrderedJson()));
  }
  return out;
}

}  // namespace loft
