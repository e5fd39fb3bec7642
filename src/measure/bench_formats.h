// measure: rows of loft.bench/1 as text: a table for people, and the forms that other programs read. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace loft {

/// The forms of --output.
enum class BenchFormat : uint8_t { Md, Csv, JsonObject, JsonLines, Sql, Profile };
/// The word of --output; "none" and unknown words give nullopt.
std::optional<BenchFormat> bench_format_from_name(std::string_view name);

/// All rows in one form.
std::string format_rows(BenchFormat format, std::span<const OrderedJson> rows);

/// A Markdown table, and below it memory by phase, kernels, cache counters, and what was skipped or failed.
std::string md_text(std::span<const OrderedJson> rows);
/// {"schema": "loft.bench/1", "results": [rows]}
std::string json_text(std::span<const OrderedJson> rows);
/// One row a line.
std::string jsonl_text(std::span<const OrderedJson> rows);
/// RFC 4180 with a header; the keys of a row in order without samples_*; values that are objects as compact JSON.
std::string csv_text(std::span<const OrderedJson> rows);
std::string csv_text(std::span<const OrderedJson> rows, std::span<const char* const> keys);
/// A CREATE TABLE IF NOT EXISTS loft_bench, and an INSERT a row.
std::string sql_text(std::span<const OrderedJson> rows);
/// The published profile block, one a row.
std::string profile_text(std::span<const OrderedJson> rows);
/// The published table of one line a run. `backend` is the device's name.
std::string legacy_csv_text(std::span<const OrderedJson> rows);

/// A column of a Markdown table; all have as many cells.
struct MdColumn {
  std::string title{};
  bool is_number = false;  // to the right
  std::vector<std::string> cells{};
};
/// Columns padded to one width each. A newline behind the last row.
std::string md_table(std::vector<MdColumn> columns);

/// A field of CSV, quoted where RFC 4180 wants it.
std::string csv_field(std::string_view text);

/// "123.45 (120.01-125.60)"
std::string spread_text(double median, double min, double max);

}  // namespace loft
