// measure: one measured test as a JSON object: the form in which results are printed, stored, passed from a measuring
// process to the one that asked, compared and plotted. Names are llama-bench's where the meaning is the same.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/json.h"
#include "measure/bench_run.h"
#include "measure/bench_work.h"
#include "measure/stream_ceiling.h"

namespace loft {

/// The keys in their fixed order; new ones are added at the end only.
std::span<const char* const> bench_row_keys();

/// A row with every key, all null but the schema.
OrderedJson empty_bench_row();

/// What is known before anything runs.
void put_plan(OrderedJson& row, const BenchGroup& group, const BenchTest& test);

/// The figures of a test that ran: times, rates, memory, counters, bandwidth. status becomes "ok".
struct MeasuredTest {
  const BenchResult& result;
  const BenchTest& test;
  const BenchModel& model;
  const BenchRunOptions& run;
  TestWork work;
  Ceiling ceiling;
  MemoryEstimate estimate;
};
void put_result(OrderedJson& row, const MeasuredTest& measured);

/// Six decimals, which is what a clock or a rate is worth; null where x is not finite.
OrderedJson json_number(double x);
OrderedJson memory_phase_json(const MemoryPhase& phase);
OrderedJson estimate_json(const MemoryEstimate& estimate);

/// Values of a row that other parts ask for; a default where the key is absent or null.
double row_number(const OrderedJson& row, std::string_view key, double otherwise = 0);
std::string row_text(const OrderedJson& row, std::string_view key);
bool row_is_ok(const OrderedJson& row);

/// Rows of a file: a JSON object with "results", an array of rows, or one row a line. A last line that was cut off is
/// left out when `may_be_cut`. Errors: NotFound; Corrupt for anything that is no row of loft.bench/1 or
/// loft.bench.qmm/1.
std::vector<OrderedJson> read_bench_rows(const std::string& path, bool may_be_cut = false);

}  // namespace loft
