// model: quantizes a checkpoint module by module. See quantize_checkpoint.h.
#include "model/quantize_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/arch_list.h"
#include "model/checkpoint_files.h"
#include "model/config.h"
#include "model/quantize_plan.h"
#include "model/weights.h"
#include "quant/affine.h"
#include "quant/quantize.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr int64_t kChunkWeights = int64_t(1) << 22;  // decoded at a time: 16 MB as f32

// Calls body(begin, end) over [0, n) in as many threads as the machine has. body must not throw.
template <class Body>
void in_threads(int64_t n, const Body& body) {
  const int64_t n_threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, std::max<int64_t>(n, 1));
  std::vector<std::jthread> threads;
  for (int64_t t = 1; t < n_threads; ++t) {
    threads.emplace_back([&body, n, t, n_threads] { body(n * t / n_threads, n * (t + 1) / n_threads); });
  }
  body(0, n / n_threads);
}

[[noreturn]] void fail_not_finite(const std::string& path, int64_t row, float found, DType dtype) {
  fail(Code::NonFinite, "{}.weight, row {}: found {} as {}, wanted finite numbers", path, row, found,
       dtype_name(dtype));
}

// Rows [begin, end) of w as dtype: their bytes, row by row. Every value is checked; `path` names the module in the
// error.
Bytes dense_rows(const QuantWeight& w, int64_t begin, int64_t end, DType dtype, const std::string& path) {
  const size_t width = dtype_bytes(dtype);
  Bytes out(size_t((end - begin) * w.k) * width);
  std::atomic<int64_t> bad_row = std::numeric_limits<int64_t>::max();
  std::atomic<float> bad_value = 0;
  in_threads(end - begin, [&](int64_t first, int64_t last) {
    std::vector<float> row(size_t(w.k));
    for (int64_t r = first; r < last; ++r) {
      dequantize_run(w, begin + r, 0, w.k, row.data());
      uint8_t* to = out.data() + size_t(r * w.k) * width;
      for (int64_t i = 0; i < w.k; ++i) {
        store_float(row[size_t(i)], dtype, to, i);
        if (std::isfinite(load_float(to, dtype, i))) continue;
        bad_value = row[size_t(i)];
        bad_row = begin + r;
      }
    }
  });
  if (bad_row != std::numeric_limits<int64_t>::max()) fail_not_finite(path, bad_row, bad_value, dtype);
  return out;
}

// Writes the three parts of one module: words as they come, scales and biases gathered behind them.
void write_quantized(const StoredModule& module, const QuantFormat& format, DType dtype, SafetensorsWriter& writer) {
  const QuantWeight& w = module.weight;
  QuantWeight target = w;
  target.format = format;
  target.scale_dtype = format.kind == QuantKind::Affine ? dtype : DType::U8;
  const size_t word_bytes = word_row_bytes(target), scale_bytes = scale_row_bytes(target);
  const bool has_biases = format_row(format.kind).has_biases;
  Bytes scales(size_t(w.n) * scale_bytes), biases(has_biases ? scales.size() : 0);
  const int64_t chunk_rows = std::max<int64_t>(kChunkWeights / w.k, 1);
  for (int64_t begin = 0; begin < w.n; begin += chunk_rows) {
    const int64_t end = std::min(begin + chunk_rows, w.n);
    const Bytes dense_bytes = dense_rows(w, begin, end, dtype, module.shape.path);
    QuantWeight dense{.format = {.kind = QuantKind::Dense, .bits = int(8 * dtype_bytes(dtype)), .group = 0},
                      .n = end - begin,
                      .k = w.k};
    dense.dense_dtype = dtype;
    dense.words = dense_bytes.data();
    Bytes words(size_t(end - begin) * word_bytes);
    in_threads(end - begin, [&](int64_t first, int64_t last) {
      const size_t at = size_t(begin + first) * scale_bytes;
      quantize_rows(slice_rows(dense, first, last), format,
                    {.words = words.data() + size_t(first) * word_bytes,
                     .scales = scales.data() + at,
                     .biases = has_biases ? biases.data() + at : nullptr});
    });
    writer.append(words);
  }
  writer.append(scales);
  writer.append(biases);
}

void append_raw(const void* bytes, size_t size, SafetensorsWriter& writer) {
  writer.append({static_cast<const uint8_t*>(bytes), size});
}

void write_module(const StoredModule& module, const ModulePlan& plan, SafetensorsWriter& writer) {
  const QuantWeight& w = module.weight;
  const size_t n = size_t(w.n);
  if (plan.is_copy) {
    append_raw(w.words, n * word_row_bytes(w), writer);
    append_raw(w.scales, n * scale_row_bytes(w), writer);
    if (w.biases) append_raw(w.biases, n * scale_row_bytes(w), writer);
  } else if (plan.format.kind != QuantKind::Dense) {
    write_quantized(module, plan.format, plan.dtype, writer);
  } else {
    const int64_t chunk_rows = std::max<int64_t>(kChunkWeights / w.k, 1);
    for (int64_t begin = 0; begin < w.n; begin += chunk_rows) {
      writer.append(dense_rows(w, begin, std::min(begin + chunk_rows, w.n), plan.dtype, module.shape.path));
    }
  }
  if (module.bias) {
    QuantWeight bias{.format = {.kind = QuantKind::Dense, .bits = 32, .group = 0}, .n = 1, .k = module.shape.n};
    bias.dense_dtype = *module.bias->dtype;
    bias.words = module.bias->bytes.data();
    writer.append(dense_rows(bias, 0, 1, plan.bias_dtype, module.shape.path + ".bias"));
  }
}

QuantizeReport make_report(const std::vector<StoredModule>& modules, const std::vector<ModulePlan>& plans) {
  QuantizeReport report;
  uint64_t n_weights = 0;
  for (size_t i = 0; i < modules.size(); ++i) {
    uint64_t bytes = 0;
    for (const TensorPlan& tensor : plans[i].tensors) bytes += tensor.bytes();
    report.bytes_written += bytes;
    n_weights += uint64_t(modules[i].weight.n) * uint64_t(modules[i].weight.k) +
                 (modules[i].bias ? uint64_t(modules[i].shape.n) : 0);
    if (modules[i].shape.kind == ModuleKind::Norm) continue;
    const auto same = [&](const FormatCount& count) { return count.format == plans[i].format; };
    auto it = std::ranges::find_if(report.formats, same);
    if (it == report.formats.end()) {
      it = report.formats.insert(it, FormatCount{.format = plans[i].format});
    }
    it->n_modules += 1;
    it->n_weights += uint64_t(modules[i].weight.n) * uint64_t(modules[i].weight.k);
    it->bytes += bytes;
  }
  std::ranges::sort(report.formats, std::greater<>(), &FormatCount::bytes);
  report.bits_per_weight = n_weights == 0 ? 0 : double(report.bytes_written) * 8 / double(n_weights);
  return report;
}

}  // namespace

QuantizeReport quantize_checkpoint(const QuantizeRequest& request, const ProgressFn& progress) {
  check_quantize_request(request);
  OutputFolder folder(request.dst);
  const ModelConfig config = read_config(request.src);
  const Checkpoint checkpoint(request.src, config, find_arch(config.model_type)->modules(config));
  const std::vector<StoredModule>& modules = checkpoint.modules();
  OrderedJson json = parse_ordered_json(read_text_file(request.src / "config.json", JsonLimits().max_bytes),
                                        (request.src / "config.json").string());
  const std::vector<ModulePlan> plans = plan_modules(request, config, json, modules);
  write_quantized_config(request, std::move(json), modules, plans, folder.path() / "config.json");
  copy_side_files(request.src, folder.path());

  std::vector<TensorPlan> tensors;
  for (const ModulePlan& plan : plans) tensors.insert(tensors.end(), plan.tensors.begin(), plan.tensors.end());
  SafetensorsWriter writer(folder.path(), std::move(tensors));
  uint64_t done_bytes = 0;
  for (size_t i = 0; i < modules.size(); ++i) {
    write_module(modules[i], plans[i], writer);
    done_bytes += weight_bytes(modules[i].weight) + (modules[i].bias ? modules[i].bias->bytes.size() : 0);
    if (progress) progress(done_bytes, checkpoint.weight_bytes());
  }
  writer.finish();
  folder.commit();
  QuantizeReport report = make_report(modules, plans);
  report.notes = checkpoint.notes();
  return report;
}

}  // namespace loft
