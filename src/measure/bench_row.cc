#include "measure/bench_row.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"
#include "core/sha256.h"
#include "measure/bench_kernels.h"
#include "measure/bench_lists.h"
#include "measure/bench_stats.h"

namespace loft {
namespace {

constexpr const char* kSchema = "loft.bench/1";
constexpr const char* kProductSchema = "loft.bench.qmm/1";
constexpr size_t kMaxFileBytes = size_t(256) << 20;

constexpr const char* kKeys[] = {
    "build_commit",   "cpu_info",     "gpu_info",   "backends",
    "model_filename", "model_type",   "model_size", "model_n_params",
    "n_batch",        "n_threads",    "n_prompt",   "n_gen",
    "n_depth",        "test_time",    "avg_ns",     "stddev_ns",
    "avg_ts",         "stddev_ts",    "samples_ns", "samples_ts",
    "schema",         "version",      "build",      "host",
    "device",         "model_id",     "quant",      "test",
    "n_seqs",         "warmup",       "median_ts",  "min_ts",
    "max_ts",         "mad_ts",       "ci95_ts",    "pp_ts",
    "tg_ts",          "mem",          "qmm",        "bytes",
    "gbps",           "ceiling_gbps", "share",      "tflops",
    "options",        "guard",        "arm",        "round",
    "flags",          "status",       "error",      "prompt_id",
    "answer_id",      "n_forwards",   "counters",   "kernels",
};

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson out = OrderedJson::array();
  for (const double v : values) out.push_back(json_number(v));
  return out;
}

OrderedJson rate_json(const std::vector<double>& rates) {
  if (rates.empty()) return nullptr;
  const SampleStats s = sample_stats(rates);
  return {{"median", json_number(s.median)},
          {"min", json_number(s.min)},
          {"max", json_number(s.max)},
          {"samples", numbers(rates)}};
}

/// Short name of a sequence of ids, so that two results can be held to the same work.
std::string ids_name(const std::vector<int32_t>& ids, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) text += fmt::format("{} ", ids[i]);
  return sha256_hex(text).substr(0, 16);
}

OrderedJson counters_json(const BenchResult& r) {
  OrderedJson out = qmm_stats_json(r.qmm_total);
  out["warmup"] = qmm_stats_json(r.qmm_warmup);
  out["passes"] = OrderedJson::array();
  for (const BenchPass& p : r.passes) out["passes"].push_back(qmm_stats_json(p.qmm));
  return out;
}

OrderedJson device_counters_json(const BackendCounters& c) {
  return {{"allocations", c.allocations},
          {"allocated_bytes", c.allocated_bytes},
          {"copies", c.copies},
          {"copied_bytes", c.copied_bytes},
          {"launches", c.launches}};
}

void check_row(const OrderedJson& row, const std::string& where) {
  const std::string schema = row.is_object() ? row_text(row, "schema") : std::string();
  const bool is_row = (schema == kSchema && !row_text(row, "test").empty()) || schema == kProductSchema;
  if (!is_row) fail(Code::Corrupt, "{}: found no row of {}", where, kSchema);
}

}  // namespace

OrderedJson json_number(double x) {
  if (!std::isfinite(x)) return nullptr;
  return std::round(x * 1e6) / 1e6;
}

std::span<const char* const> bench_row_keys() {
  return kKeys;
}

OrderedJson empty_bench_row() {
  OrderedJson row = OrderedJson::object();
  for (const char* key : kKeys) row[key] = nullptr;
  row["schema"] = kSchema;
  return row;
}

void put_plan(OrderedJson& row, const BenchGroup& g, const BenchTest& t) {
  row["model_filename"] = g.model;
  row["n_batch"] = g.n_batch;
  if (g.n_threads > 0) row["n_threads"] = g.n_threads;
  row["n_prompt"] = t.n_prompt;
  row["n_gen"] = t.n_gen;
  row["n_depth"] = t.n_depth;
  row["n_seqs"] = g.n_parallel;
  row["test"] = test_name(t);
}

OrderedJson memory_phase_json(const MemoryPhase& p) {
  return {{"active_bytes", p.active_bytes}, {"peak_bytes", p.peak_bytes}, {"cache_bytes", p.cache_bytes}};
}

OrderedJson estimate_json(const MemoryEstimate& e) {
  return {{"total_bytes", e.total()},
          {"weight_bytes", e.plan.weight_bytes},
          {"kv_bytes", e.plan.kv_bytes},
          {"activation_bytes", e.plan.activation_bytes},
          {"workspace_bytes", e.plan.workspace_bytes},
          {"dense_bytes", e.dense_bytes}};
}

void put_result(OrderedJson& row, const MeasuredTest& m) {
  const BenchResult& r = m.result;
  const int64_t np = m.model.sizes.n_parallel;
  const std::vector<double> ts = pass_rates(r, m.test, np);
  std::vector<double> ns;
  for (const BenchPass& p : r.passes) ns.push_back(double(p.pp_ns + p.tg_ns));
  const SampleStats rate = sample_stats(ts), time = sample_stats(ns);
  row["test_time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  row["avg_ns"] = std::llround(time.mean);
  row["stddev_ns"] = std::llround(time.stdev);
  row["avg_ts"] = json_number(rate.mean);
  row["stddev_ts"] = json_number(rate.stdev);
  row["samples_ns"] = OrderedJson::array();
  for (const double x : ns) row["samples_ns"].push_back(std::llround(x));
  row["samples_ts"] = numbers(ts);
  row["warmup"] = m.run.has_warmup;
  row["median_ts"] = json_number(rate.median);
  row["min_ts"] = json_number(rate.min);
  row["max_ts"] = json_number(rate.max);
  row["mad_ts"] = json_number(rate.mad);
  row["ci95_ts"] = {
      {"lo", json_number(rate.ci_lo)}, {"hi", json_number(rate.ci_hi)}, {"coverage", json_number(rate.ci_coverage)}};
  row["pp_ts"] = rate_json(pp_rates(r, m.test, np));
  row["tg_ts"] = rate_json(tg_rates(r, m.test, np));
  const ProcessMemory process = read_process_memory();
  row["mem"] = {{"load", memory_phase_json(m.model.load)},
                {"warmup", memory_phase_json(r.warmup)},
                {"measured", memory_phase_json(r.measured)},
                {"estimate", estimate_json(m.estimate)},
                {"process",
                 {{"resident_bytes", process.resident_bytes},
                  {"peak_resident_bytes", process.peak_resident_bytes},
                  {"mapped_bytes", process.mapped_bytes}}}};
  row["qmm"] = counters_json(r);
  row["counters"] = {{"warmup", device_counters_json(r.counters_warmup)}, {"passes", OrderedJson::array()}};
  for (const BenchPass& p : r.passes) row["counters"]["passes"].push_back(device_counters_json(p.counters));
  if (r.kernels) row["kernels"] = kernels_json(*r.kernels, m.ceiling);
  row["bytes"] = std::llround(m.work.bytes);
  const double gbps = time.median > 0 ? m.work.bytes / time.median : 0;
  row["gbps"] = json_number(gbps);
  row["tflops"] = json_number(time.median > 0 ? m.work.flops / time.median * 1e-3 : 0);
  if (m.ceiling.gbps > 0) {
    row["ceiling_gbps"] = json_number(m.ceiling.gbps);
    row["share"] = json_number(gbps / m.ceiling.gbps);
  }
  const size_t n_prompt = size_t(std::max<int64_t>(1, m.test.n_depth + m.test.n_prompt));
  row["prompt_id"] = ids_name(r.last_ids, 0, std::min(n_prompt, r.last_ids.size()));
  row["answer_id"] = ids_name(r.last_ids, std::min(n_prompt, r.last_ids.size()), r.last_ids.size());
  row["n_forwards"] = r.passes.empty() ? 0 : r.passes.front().n_forwards;
  row["status"] = "ok";
}

double row_number(const OrderedJson& row, std::string_view key, double otherwise) {
  const auto it = row.find(std::string(key));
  return it != row.end() && it->is_number() ? it->get<double>() : otherwise;
}

std::string row_text(const OrderedJson& row, std::string_view key) {
  const auto it = row.find(std::string(key));
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool row_is_ok(const OrderedJson& row) {
  return row_text(row, "status") == "ok";
}

std::vector<OrderedJson> read_bench_rows(const std::string& path, bool may_be_cut) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  const JsonLimits limits{.max_bytes = kMaxFileBytes, .python_numbers = false};
  std::vector<OrderedJson> rows;
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_array = first != std::string::npos && text[first] == '[';
  const size_t line_end = std::min(text.find('\n'), text.size());
  // One row a line begins with a whole row; an object over several lines, or one with "results", is one document.
  const bool is_lines =
      !is_array && text.substr(0, line_end).find("\"results\"") == std::string::npos && line_end > first + 2;
  if (!is_lines) {
    const OrderedJson all = parse_ordered_json(text, path, limits);
    const OrderedJson& list = is_array ? all : all.contains("results") ? all["results"] : all;
    if (!list.is_array()) fail(Code::Corrupt, "{}: found no rows of {}", path, kSchema);
    for (const OrderedJson& row : list) rows.push_back(row);
  } else {
    std::vector<std::string> lines = split_text(text, '\n');
    if (may_be_cut || lines.back().empty()) lines.pop_back();  // what stands behind the last newline
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty()) continue;
      rows.push_back(parse_ordered_json(lines[i], fmt::format("{}:{}", path, i + 1), limits));
    }
  }
  for (const OrderedJson& row : rows) check_row(row, path);
  return rows;
}

}  // namespace loft
