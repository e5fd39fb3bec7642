#include "measure/bench_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "measure/bench_lists.h"
#include "measure/bench_row.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;
using testing::Not;

OrderedJson measured_row() {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "models/a, \"b\" 'c'"}, {.n_prompt = 2048, .n_gen = 128, .joint = true});
  row["status"] = "ok";
  row["build_commit"] = "abc";
  row["build"] = {{"commit", "abc"}, {"dirty", true}, {"type", "Release"}};
  row["version"] = "0.1.0";
  row["cpu_info"] = "A CPU";
  row["quant"] = "affine4g64";
  row["test_time"] = "2026-03-04T05:06:07Z";
  row["samples_ts"] = {700.5, 710.25};
  row["samples_ns"] = {1, 2};
  row["median_ts"] = 705.375;
  row["min_ts"] = 700.5;
  row["max_ts"] = 710.25;
  row["pp_ts"] = {{"median", 2867.54}, {"min", 2800.0}, {"max", 2900.0}};
  row["tg_ts"] = {{"median", 62.71}, {"min", 62.7}, {"max", 62.72}};
  const OrderedJson phase = {{"active_bytes", 2560000000}, {"peak_bytes", 4520000000}, {"cache_bytes", 120000000}};
  row["mem"] = {{"load", phase}, {"warmup", phase}, {"measured", phase}};
  row["qmm"] = {{"kernels", {{"small", 3}, {"gemv-wide", 700}}},
                {"cache", {{"hits", 1}, {"misses", 2}, {"bypasses", 340}}}};
  row["gbps"] = 192.5;
  row["share"] = 0.75;
  row["ceiling_gbps"] = 256.0;
  return row;
}

OrderedJson skipped_row() {
  OrderedJson row = empty_bench_row();
  put_plan(row, {.model = "big"}, {.n_gen = 128});
  row["status"] = "SKIP:oom_estimate";
  row["error"] = "needs, says the header, a lot";
  return row;
}

/// Fields of the lines of a CSV text, by RFC 4180.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      lines.back().back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!quoted && c == '\r') {
      continue;
    } else if (!quoted && c == '\n') {
      lines.emplace_back(1, "");
    } else {
      lines.back().back() += c;
    }
  }
  lines.pop_back();
  return lines;
}

// Mutant: bench_csv_unquoted (more fields than columns).
TEST(BenchFormats, CsvComesBackFieldByField) {
  const std::vector<OrderedJson> rows = {measured_row(), skipped_row()};
  const auto lines = parse_csv(csv_text(rows));
  ASSERT_EQ(lines.size(), 3u);
  for (const auto& line : lines) EXPECT_EQ(line.size(), bench_row_keys().size() - 2);  // without samples_*
  for (size_t i = 0; i < lines[0].size(); ++i) {
    const OrderedJson& value = rows[0][lines[0][i]];
    if (value.is_string()) {
      EXPECT_EQ(lines[1][i], value.get<std::string>());
    }
    if (value.is_object()) {
      EXPECT_EQ(parse_ordered_json(lines[1][i], "field"), value);
    }
    if (value.is_null()) {
      EXPECT_EQ(lines[1][i], "");
    }
  }
  EXPECT_THAT(lines[0], testing::Contains("ci95_ts"));
  EXPECT_THAT(lines[0], Not(testing::Contains("samples_ns")));
}

TEST(BenchFormats, JsonAndLinesComeBackAsRows) {
  TempFolder temp;
  const std::vector<OrderedJson> rows = {measured_row(), skipped_row()};
  write_text_file(temp / "a.json", json_text(rows));
  write_text_file(temp / "a.jsonl", jsonl_text(rows));
  write_text_file(temp / "one.jsonl", jsonl_text(std::span(rows).first(1)));
  write_text_file(temp / "cut.jsonl", jsonl_text(rows) + "{\"schema\": \"lo");
  EXPECT_EQ(read_bench_rows(temp / "a.json"), rows);
  EXPECT_EQ(read_bench_rows(temp / "a.jsonl"), rows);
  EXPECT_EQ(read_bench_rows(temp / "one.jsonl").size(), 1u);
  EXPECT_EQ(read_bench_rows(temp / "cut.jsonl", true), rows);
  EXPECT_NE(error_of([&] { read_bench_rows(temp / "cut.jsonl"); }), "");
  write_text_file(temp / "other.json", "{\"results\": [{\"schema\": \"other/1\"}]}");
  EXPECT_THAT(error_of([&] { read_bench_rows(temp / "other.json"); }), HasSubstr("found no row of loft.bench/1"));
}

// Mutant: bench_sql_unquoted.
TEST(BenchFormats, SqlDoublesQuotes) {
  const std::string sql = sql_text(std::vector<OrderedJson>{measured_row()});
  EXPECT_THAT(sql, testing::StartsWith("CREATE TABLE IF NOT EXISTS loft_bench (\n"));
  EXPECT_THAT(sql, HasSubstr("'models/a, \"b\" ''c'''"));
  EXPECT_THAT(sql, HasSubstr("\"n_prompt\" INTEGER"));
  EXPECT_THAT(sql, HasSubstr(", NULL"));
}

TEST(BenchFormats, ProfileFitsThePublishedPatterns) {
  const std::string text = profile_text(std::vector<OrderedJson>{measured_row(), skipped_row()});
  EXPECT_EQ(text,
            "[Profile Results]\n"
            "  Prompt tokens:    2048\n"
            "  Generated tokens: 128\n"
            "  Prefill:          714.20 ms (2867.54 tok/s)\n"
            "  Decode:           2041.14 ms (62.71 tok/s)\n"
            "  Decode path:      gemv-wide\n"
            "  MLX peak memory:  4.52 GB\n");
  EXPECT_TRUE(std::regex_search(text, std::regex(R"(Prefill:\s+([\d.]+) ms \(([\d.]+) tok/s\))")));
  EXPECT_TRUE(std::regex_search(text, std::regex(R"(MLX peak memory:\s+([\d.]+) GB)")));
}

TEST(BenchFormats, LegacyTableHasThePublishedHeader) {
  const std::string text = legacy_csv_text(std::vector<OrderedJson>{measured_row()});
  const std::vector<std::string> lines = split_text(text, '\n');
  EXPECT_EQ(lines[0],
            "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,"
            "hardware,mlx_version,build_type,max_tokens,prompt,prompt_target_len,loft_version,loft_commit,status");
  EXPECT_EQ(lines[1],
            "\"a, \"\"b\"\" 'c'\",\"models/a, \"\"b\"\" 'c'\",2048,128,714.20,2867.54,2041.14,62.71,2026-03-04,A CPU,,"
            "Release,128,,2048,0.1.0,abc-dirty,ok");
}

TEST(BenchFormats, TheTableShowsMediansWithRangesAndWhatIsBehindThem) {
  OrderedJson other = measured_row();
  other["n_batch"] = 64;
  const std::string text = md_text(std::vector<OrderedJson>{measured_row(), other, skipped_row()});
  EXPECT_THAT(text, HasSubstr("| pp2048+tg128: prompt | "));
  EXPECT_THAT(text, HasSubstr("2867.54 (2800.00-2900.00)"));
  EXPECT_THAT(text, HasSubstr("62.71 (62.70-62.72)"));
  EXPECT_THAT(text, HasSubstr("705.38 (700.50-710.25)"));
  EXPECT_THAT(text, HasSubstr("75 %"));
  EXPECT_THAT(text, HasSubstr("| batch |")) << "shown, since it varies";
  EXPECT_THAT(text, Not(HasSubstr("| seqs |")));
  EXPECT_THAT(
      text,
      HasSubstr(
          "[Memory] after warmup (prefill + warmup tokens): active 2.56 GB, cache 0.1200 GB, phase peak 4.52 GB"));
  EXPECT_THAT(text, HasSubstr("bypasses 340"));
  EXPECT_THAT(text, HasSubstr("SKIP:oom_estimate: needs, says the header, a lot"));
  size_t width = 0;
  for (const std::string& line : split_text(text, '\n')) {
    if (!line.starts_with("|")) break;
    if (width == 0) width = line.size();
    EXPECT_EQ(line.size(), width) << line;
  }
}

}  // namespace
}  // namespace loft
