// measure: the forms that programs read.
#include "measure/bench_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "measure/bench_row.h"

namespace loft {
namespace {

bool is_samples(std::string_view key) {
  return key.starts_with("samples_");
}

// What a column of CSV or SQL holds: text as it is, objects as compact JSON, nothing for null.
std::string plain(const OrderedJson& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

const OrderedJson& member(const OrderedJson& row, const char* key) {
  static const OrderedJson null = nullptr;
  const auto it = row.find(key);
  return it == row.end() ? null : *it;
}

std::string sql_value(const OrderedJson& value) {
  if (value.is_null()) return "NULL";
  if (value.is_number()) return dump_json(value);
  std::string out = "'";
  for (const char c : plain(value)) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

constexpr const char* kIntegers[] = {"model_size", "model_n_params", "n_batch",   "n_threads", "n_prompt",
                                     "n_gen",      "n_depth",        "avg_ns",    "stddev_ns", "n_seqs",
                                     "bytes",      "round",          "n_forwards"};
constexpr const char* kReals[] = {"avg_ts", "stddev_ts", "median_ts", "min_ts",       "max_ts",
                                  "mad_ts", "gbps",      "share",     "ceiling_gbps", "tflops"};

const char* sql_type(std::string_view key) {
  for (const char* k : kIntegers) {
    if (key == k) return "INTEGER";
  }
  for (const char* k : kReals) {
    if (key == k) return "REAL";
  }
  return "TEXT";
}

double median_of_rate(const OrderedJson& row, const char* key) {
  const OrderedJson& rate = member(row, key);
  return rate.is_object() ? row_number(rate, "median") : 0;
}

// The kernel row that served most products of a pass.
std::string decode_path(const OrderedJson& row) {
  const OrderedJson& qmm = member(row, "qmm");
  std::string best = "none";
  uint64_t most = 0;
  if (!qmm.is_object() || !qmm.contains("kernels")) return best;
  for (const auto& [name, count] : qmm["kernels"].items()) {
    if (count.get<uint64_t>() <= most) continue;
    most = count.get<uint64_t>();
    best = name;
  }
  return best;
}

double peak_gb(const OrderedJson& row) {
  const OrderedJson& mem = member(row, "mem");
  if (!mem.is_object() || !mem.contains("measured")) return 0;
  return row_number(mem["measured"], "peak_bytes") * 1e-9;
}

double ms_of(double tokens, double rate) {
  return rate > 0 ? 1e3 * tokens / rate : 0;
}

}  // namespace

std::optional<BenchFormat> bench_format_from_name(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"md", "csv", "json", "jsonl", "sql", "profile"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return BenchFormat(i);
  }
  return std::nullopt;
}

std::string format_rows(BenchFormat format, std::span<const OrderedJson> rows) {
  using Function = std::string (*)(std::span<const OrderedJson>);
  constexpr std::array<Function, 6> kFunctions = {md_text,   [](std::span<const OrderedJson> r) { return csv_text(r); },
                                                  json_text, jsonl_text,
                                                  sql_text,  profile_text};
  return kFunctions[size_t(format)](rows);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string json_text(std::span<const OrderedJson> rows) {
  OrderedJson out = {{"schema", "loft.bench/1"}, {"results", OrderedJson::array()}};
  for (const OrderedJson& row : rows) out["results"].push_back(row);
  return dump_json(out, 1) + "\n";
}

std::string jsonl_text(std::span<const OrderedJson> rows) {
  std::string out;
  for (const OrderedJson& row : rows) out += dump_json(row) + "\n";
  return out;
}

std::string csv_text(std::span<const OrderedJson> rows) {
  return csv_text(rows, bench_row_keys());
}

std::string csv_text(std::span<const OrderedJson> rows, std::span<const char* const> keys) {
  std::vector<std::string> fields;
  for (const char* key : keys) {
    if (!is_samples(key)) fields.emplace_back(key);
  }
  std::string out = fmt::format("{}\r\n", fmt::join(fields, ","));
  for (const OrderedJson& row : rows) {
    fields.clear();
    for (const char* key : keys) {
      if (!is_samples(key)) fields.push_back(csv_field(plain(member(row, key))));
    }
    out += fmt::format("{}\r\n", fmt::join(fields, ","));
  }
  return out;
}

std::string sql_text(std::span<const OrderedJson> rows) {
  std::vector<std::string> columns;
  for (const char* key : bench_row_keys()) columns.push_back(fmt::format("  \"{}\" {}", key, sql_type(key)));
  std::string out = fmt::format("CREATE TABLE IF NOT EXISTS loft_bench (\n{}\n);\n", fmt::join(columns, ",\n"));
  for (const OrderedJson& row : rows) {
    std::vector<std::string> names, values;
    for (const char* key : bench_row_keys()) {
      names.push_back(fmt::format("\"{}\"", key));
      values.push_back(sql_value(member(row, key)));
    }
    out += fmt::format("INSERT INTO loft_bench ({}) VALUES ({});\n", fmt::join(names, ", "), fmt::join(values, ", "));
  }
  return out;
}

std::string profile_text(std::span<const OrderedJson> rows) {
  std::string out;
  for (const OrderedJson& row : rows) {
    if (!row_is_ok(row)) continue;
    const double p = row_number(row, "n_prompt"), n = row_number(row, "n_gen");
    const double pp = median_of_rate(row, "pp_ts"), tg = median_of_rate(row, "tg_ts");
    out += fmt::format(
        "[Profile Results]\n  Prompt tokens:    {:.0f}\n  Generated tokens: {:.0f}\n"
        "  Prefill:          {:.2f} ms ({:.2f} tok/s)\n  Decode:           {:.2f} ms ({:.2f} tok/s)\n"
        "  Decode path:      {}\n  MLX peak memory:  {:.2f} GB\n",
        p, n, ms_of(p, pp), pp, ms_of(n, tg), tg, decode_path(row), peak_gb(row));
  }
  return out;
}

std::string legacy_csv_text(std::span<const OrderedJson> rows) {
  std::string out =
      "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,hardware,"
      "mlx_version,build_type,max_tokens,prompt,prompt_target_len,loft_version,loft_commit,status\n";
  for (const OrderedJson& row : rows) {
    const std::string path = row_text(row, "model_filename");
    const double p = row_number(row, "n_prompt"), n = row_number(row, "n_gen");
    const double pp = median_of_rate(row, "pp_ts"), tg = median_of_rate(row, "tg_ts");
    const OrderedJson& build = member(row, "build");
    const bool is_dirty = build.is_object() && build.value("dirty", false);
    const std::string type = build.is_object() ? row_text(build, "type") : "";
    const std::string fields[] = {
        csv_field(path.substr(path.find_last_of('/') + 1)),
        csv_field(path),
        fmt::format("{:.0f},{:.0f},{:.2f},{:.2f},{:.2f},{:.2f}", p, n, ms_of(p, pp), pp, ms_of(n, tg), tg),
        row_text(row, "test_time").substr(0, 10),
        csv_field(row_text(row, "cpu_info")),
        "",
        csv_field(type),
        fmt::format("{:.0f}", n),
        csv_field(row_text(row, "prompt_id")),
        fmt::format("{:.0f}", p),
        csv_field(row_text(row, "version")),
        csv_field(row_text(row, "build_commit") + (is_dirty ? "-dirty" : "")),
        csv_field(row_text(row, "status"))};
    out += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return out;
}

}  // namespace loft
