#include "measure/bench_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "engine/open_engine.h"
#include "measure/bench_row.h"
#include "measure/host_info.h"
#include "measure/model_id.h"

namespace loft {
namespace {

const char* status_of(Code code) {
  if (code == Code::OutOfMemory) return "SKIP:oom";
  return code == Code::NonFinite ? "FAIL:nonfinite" : "FAIL:bench";
}

/// What all rows of the group share.
OrderedJson base_row(const BenchGroupRun& run, const ModelWork& work, const DeviceInfo& device) {
  OrderedJson row = empty_bench_row();
  const ReadText read = read_text_of_system();
  const auto build_text = [&](const char* key) {
    return run.build.is_object() && run.build.contains(key) ? run.build[key] : OrderedJson(nullptr);
  };
  row["build_commit"] = build_text("commit");
  row["backends"] = build_text("backends");
  row["version"] = build_text("version");
  row["build"] = run.build;
  row["cpu_info"] = cpu_name(read);
  row["gpu_info"] = "";
  row["host"] = host_json(read);
  row["device"] = {{"name", device.name}, {"driver", nullptr}, {"runtime", nullptr},
                   {"arch", device.name}, {"clocks", nullptr}, {"threads", device.n_threads}};
  row["model_type"] = work.model_type;
  row["model_size"] = work.file_bytes;
  row["model_n_params"] = work.n_weights;
  row["model_id"] = model_id(run.folder);
  row["quant"] = work.quant;
  row["options"] = run.options_json;
  return row;
}

OrderedJson row_of(const OrderedJson& base, const BenchGroupRun& run, const BenchTest& test, int n_threads) {
  OrderedJson row = base;
  put_plan(row, run.group, test);
  row["n_threads"] = n_threads;
  return row;
}

Ceiling find_ceiling(const Options& o, const DeviceInfo& device) {
  const CeilingChoice choice = parse_ceiling(o.ceiling);
  if (choice.nominal_gbps > 0) return {choice.nominal_gbps, "nominal"};
  if (!choice.is_measured) return {0, "off"};
  const size_t bytes = ceiling_buffer_bytes(size_t(std::max(device.l2_bytes, device.l3_bytes)));
  // The buffer is gone before the model comes; it must only not push the machine over its edge by itself.
  if (device.memory_bytes > 0 && bytes > uint64_t(device.memory_bytes) / 2) {
    log_warn("the ceiling is not measured: its buffer of {} bytes is more than half of the {} that are free", bytes,
             device.memory_bytes);
    return {0, "off"};
  }
  return {streaming_read_gbps(device.n_threads, bytes), "measured"};
}

std::vector<int32_t> prompt_ids(const BenchGroupRun& run, const BenchModel& model, const BenchTest& test) {
  const int64_t n = std::max<int64_t>(1, test.n_depth + test.n_prompt);
  const Tokenizer& tokenizer = *model.parts.tokenizer;
  if (run.options.prompt_ids == "random")
    return random_ids(tokenizer, model.parts.model->config().vocab_size, run.options.seed.value_or(0), n);
  return text_ids(tokenizer, run.prompt_text, n);
}

}  // namespace

void run_bench_group(const BenchGroupRun& run, const std::function<void(const OrderedJson&)>& on_row,
                     const std::function<bool()>& next_round) {
  const Options& o = run.options;
  const ModelWork work = model_work(run.folder);
  BenchSizes sizes{.n_batch = run.group.n_batch, .n_parallel = run.group.n_parallel, .max_tokens = 1};
  for (const BenchTest& t : run.tests) sizes.max_tokens = std::max(sizes.max_tokens, t.n_tokens());
  const DeviceInfo device = backend_from_options(o)->device();
  const OrderedJson base = base_row(run, work, device);
  const std::span<const BenchTest> tests = std::span(run.tests).subspan(std::min(run.n_skip, run.tests.size()));

  const auto give_up = [&](const char* status, const std::string& why, const MemoryEstimate& estimate) {
    for (const BenchTest& t : tests) {
      OrderedJson row = row_of(base, run, t, device.n_threads);
      row["mem"] = {{"estimate", estimate_json(estimate)}};
      row["status"] = status;
      row["error"] = why;
      on_row(row);
    }
  };
  // Before anything is loaded: a machine that begins to swap is of no use to anybody, and measures nothing.
  const MemoryEstimate estimate = estimate_memory(run.folder, o, sizes);
  const double need = double(estimate.total()) * o.mem_factor;
  const uint64_t all = estimate.plan.have_bytes;
  const double have = double(all) * o.mem_fraction;
  if (all > 0 && need > have) {
    return give_up("SKIP:oom_estimate",
                   fmt::format("needs about {:.0f} bytes, {:.0f} of the {} that are free may be used", need, have, all),
                   estimate);
  }
  const Ceiling ceiling = find_ceiling(o, device);
  BenchModel model;
  try {
    model = open_bench_model(run.folder, o, sizes);
  } catch (const Error& e) {
    if (e.code() != Code::OutOfMemory) throw;
    return give_up("SKIP:oom", e.what(), estimate);
  }
  if (next_round && !next_round()) return;
  bool is_first = true;
  do {
    for (const BenchTest& t : tests) {
      if (!is_first && o.delay > 0) std::this_thread::sleep_for(std::chrono::duration<double>(o.delay));
      is_first = false;
      OrderedJson row = row_of(base, run, t, device.n_threads);
      try {
        const BenchResult result = run_bench_test(model, t, prompt_ids(run, model, t), run.run);
        put_result(row, {.result = result,
                         .test = t,
                         .model = model,
                         .run = run.run,
                         .work = test_work(work, t, sizes.n_batch, sizes.n_parallel, model.kv),
                         .ceiling = ceiling,
                         .estimate = estimate});
      } catch (const Error& e) {
        row["status"] = status_of(e.code());
        row["error"] = e.what();
      }
      on_row(row);
    }
  } while (next_round && next_round());
}

}  // namespace loft
