#include "measure/bench_qmm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "backend/backend.h"
#include "core/error.h"
#include "engine/open_engine.h"
#include "measure/bench_lists.h"
#include "measure/bench_stats.h"
#include "ops/linear.h"
#include "qmm/route.h"
#include "quant/quantize.h"
#include "quant/reference.h"

namespace loft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kSchema = "loft.bench.qmm/1";
constexpr const char* kKeys[] = {"schema", "version",   "build",  "host",     "cpu_info",   "device", "n_threads",
                                 "format", "x_dtype",   "n",      "k",        "m",          "kernel", "route",
                                 "chosen", "median_us", "min_us", "max_us",   "samples_us", "gbps",   "ceiling_gbps",
                                 "share",  "tflops",    "error",  "n_copies", "bytes",      "status"};

/// A call shorter than this is repeated: the clock and the wake-up of threads are microseconds.
constexpr double kLeastSampleNs = 3e6;
constexpr int64_t kCheckedOutputs = 64;
/// Beyond the sum of |x| |w|: a16 rounds x to 2^-16 of the largest of a group, bf16 outputs to 2^-9 of themselves.
constexpr double kTolerance = 4e-3;

QmmSpec spec_of(const QuantFormat& format, int64_t n, int64_t k, DType x_dtype) {
  const FormatRow& row = format_row(format.kind);
  return {.format = format,
          .x_dtype = x_dtype,
          .scale_dtype = row.has_biases ? DType::F16 : row.scale_dtype,
          .has_biases = row.has_biases,
          .n = n,
          .k = k};
}

bool is_asked_for(const QmmKernel& row, const std::string& which) {
  return which == "all" || which == row.name || which == route_name(row.route);
}

void add_cases(const Backend& backend, const QmmSpec& spec, int64_t m, const std::string& which,
               std::vector<QmmBenchCase>& out) {
  const auto rows = backend.qmm_table();
  const Layout layout = choose_layout(spec, backend.device(), backend.policy(), rows);
  const RouteDecision d = select_qmm_route({spec, m}, layout, backend.device(), backend.policy(), rows);
  for (const QmmKernel& row : rows) {
    const bool is_chosen = d.kernel == &row;
    if (which.empty() ? !is_chosen : !is_asked_for(row, which)) continue;
    if (!row.entry) continue;
    if (row.reject(spec, backend.device(), backend.policy())) continue;
    const MRange range = row.m_range(spec, backend.device(), backend.policy());
    if (m < range.lo || m > range.hi) continue;
    out.push_back({.n = spec.n,
                   .k = spec.k,
                   .m = m,
                   .format = spec.format,
                   .kernel = row.name,
                   .route = route_name(row.route),
                   .is_chosen = is_chosen});
  }
}

void check_route_name(const Backend& backend, const std::string& which) {
  std::vector<std::string> known = {"all"};
  for (const QmmKernel& row : backend.qmm_table()) {
    known.emplace_back(row.name);
    known.emplace_back(route_name(row.route));
  }
  if (which.empty() || std::find(known.begin(), known.end(), which) != known.end()) return;
  const std::string near = nearest_name(which, known);
  fail(Code::BadRequest, "--route: no row or route '{}'{}", which,
       near.empty() ? "; loft routes lists them" : fmt::format("; did you mean {}?", near));
}

void put_float(uint8_t* at, DType dtype, float value) {
  if (dtype == DType::F32) {
    std::memcpy(at, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::BF16 ? f32_to_bf16(value) : f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}
float get_float(const uint8_t* at, DType dtype) {
  if (dtype == DType::F32) {
    float value = 0;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, 2);
  return dtype == DType::BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

std::vector<uint8_t> normal_values(int64_t count, DType dtype, float size, uint64_t seed) {
  // Sums of uniform draws: near enough to a normal distribution, and the same on every system.
  std::mt19937_64 engine(seed);
  std::vector<uint8_t> out(size_t(count) * dtype_bytes(dtype));
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int j = 0; j < 4; ++j) sum += float(engine() >> 40) * 0x1p-24f - 0.5f;
    put_float(out.data() + size_t(i) * dtype_bytes(dtype), dtype, sum * 1.7320508f * size);
  }
  return out;
}

/// A weight on the host, quantized from seeded values, and copies of it on the device.
struct Weight {
  std::vector<uint8_t> words, scales, biases;
  QuantWeight host;
  std::vector<Buffer> memory;
  std::vector<QuantWeight> copies;
};

QuantWeight make_host_weight(const QmmSpec& spec, Weight& w) {
  const std::vector<uint8_t> dense =
      normal_values(spec.n * spec.k, DType::F16, float(1 / std::sqrt(double(spec.k))), 1);
  const QuantWeight source{.format = {.kind = QuantKind::Dense, .bits = 16, .group = 0},
                           .n = spec.n,
                           .k = spec.k,
                           .dense_dtype = DType::F16,
                           .words = dense.data()};
  QuantWeight view{.format = spec.format, .n = spec.n, .k = spec.k, .scale_dtype = spec.scale_dtype};
  if (spec.format.kind == QuantKind::Dense) {
    view.dense_dtype = spec.scale_dtype;
    w.words = spec.scale_dtype == DType::F16
                  ? dense
                  : normal_values(spec.n * spec.k, spec.scale_dtype, float(1 / std::sqrt(double(spec.k))), 1);
    view.words = w.words.data();
    return view;
  }
  w.words.resize(size_t(spec.n) * word_row_bytes(view));
  w.scales.resize(size_t(spec.n) * scale_row_bytes(view));
  if (spec.has_biases) w.biases.resize(w.scales.size());
  quantize_rows(
      source, spec.format,
      {.words = w.words.data(), .scales = w.scales.data(), .biases = spec.has_biases ? w.biases.data() : nullptr});
  view.words = w.words.data();
  view.scales = w.scales.data();
  if (spec.has_biases) view.biases = w.biases.data();
  return view;
}

void make_copies(Backend& backend, size_t n_copies, Weight& w) {
  for (size_t i = 0; i < n_copies; ++i) {
    QuantWeight copy = w.host;
    const auto put = [&](const std::vector<uint8_t>& bytes) -> const void* {
      if (bytes.empty()) return nullptr;
      w.memory.push_back(backend.allocate(bytes.size()));
      backend.upload(w.memory.back().data(), bytes.data(), bytes.size());
      return w.memory.back().data();
    };
    copy.words = put(w.words);
    copy.scales = put(w.scales);
    copy.biases = put(w.biases);
    w.copies.push_back(copy);
  }
}

size_t copies_for(const Backend& backend, size_t bytes, bool is_warm) {
  constexpr size_t kMostBytes = size_t(2) << 30;
  if (is_warm) return 1;
  const size_t cache = size_t(std::max(backend.device().l3_bytes, backend.device().l2_bytes));
  return std::max<size_t>(2, std::min(2 * cache, kMostBytes) / bytes + 1);
}

/// The largest |y - truth| as a share of the sum of |x| |w|, over the first and the last row of x and outputs that
/// stand evenly.
double error_of(const QuantWeight& w, std::span<const uint8_t> x, std::span<const uint8_t> y, DType dtype, int64_t m) {
  double worst = 0;
  const size_t bytes = dtype_bytes(dtype);
  for (const int64_t row : {int64_t(0), m - 1}) {
    std::vector<float> xs(static_cast<size_t>(w.k));
    for (int64_t i = 0; i < w.k; ++i) xs[size_t(i)] = get_float(x.data() + size_t(row * w.k + i) * bytes, dtype);
    const int64_t step = std::max<int64_t>(1, w.n / kCheckedOutputs);
    for (int64_t n = 0; n < w.n; n += step) {
      const QuantWeight one = slice_rows(w, n, n + 1);
      const double truth = reference_matmul(xs, one)[0], size = reference_abs_matmul(xs, one)[0];
      const double found = get_float(y.data() + size_t(row * w.n + n) * bytes, dtype);
      const double off = std::fabs(found - truth) / std::max(size, 1e-30);
      if (!(off <= worst)) worst = off;  // a NaN stays
    }
  }
  return worst;
}

const QmmKernel& row_named(const Backend& backend, const std::string& name) {
  const auto rows = backend.qmm_table();
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const QmmKernel& r) { return name == r.name; });
  LOFT_CHECK(it != rows.end());
  return *it;
}

/// The calls of one case.
class Product {
 public:
  /// The row is set by hand: routing would take the first that fits.
  Product(Backend& backend, const QmmBenchCase& c, const Weight& weight, DType dtype)
      : backend_(backend), layers_(weight.copies.size()) {
    const QmmKernel& row = row_named(backend, c.kernel);
    for (size_t i = 0; i < layers_.size(); ++i) {
      Linear& layer = layers_[i];
      layer.name = "bench";
      layer.weight = weight.copies[i];
      layer.x_dtype = dtype;
      layer.layout = layer.wanted = row.layout;
      if (row.layout != Layout::Checkpoint) {
        layer.packed = backend.allocate(backend.packed_bytes(layer.weight, row.layout));
        backend.pack(layer.weight, row.layout, layer.packed.data());
      }
      layer.kernel = &row;
      layer.same = {c.m, c.m};
    }
    const QmmSpec spec = spec_of(c.format, c.n, c.k, dtype);
    workspace_ = make_linear_workspace(backend, {.workspace_bytes = row.workspace_bytes(spec, c.m, backend.device())},
                                       {.mode = DequantCacheMode::Off});
    x_host = normal_values(c.m * c.k, dtype, 1, 2);
    x_ = backend.allocate(x_host.size());
    backend.upload(x_.data(), x_host.data(), x_host.size());
    y_ = backend.allocate(size_t(c.m * c.n) * dtype_bytes(dtype));
    x_view_ = make_tensor(x_.data(), dtype, {c.m, c.k});
    y_view_ = make_tensor(y_.data(), dtype, {c.m, c.n});
  }
  /// Nanoseconds of n calls, each on the next copy.
  double run(int64_t n) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < n; ++i) linear(backend_, workspace_, layers_[turn_++ % layers_.size()], x_view_, y_view_);
    backend_.synchronize();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  }
  std::vector<uint8_t> result() {
    std::vector<uint8_t> y(y_view_.bytes());
    backend_.download(y.data(), y_.data(), y.size());
    return y;
  }
  std::vector<uint8_t> x_host;

 private:
  Backend& backend_;
  std::vector<Linear> layers_;
  LinearWorkspace workspace_;
  Buffer x_, y_;
  Tensor x_view_, y_view_;
  size_t turn_ = 0;
};

OrderedJson number(double x) {
  return std::isfinite(x) ? OrderedJson(std::round(x * 1e9) / 1e9) : OrderedJson(nullptr);
}

OrderedJson measure(Backend& backend, const QmmBenchCase& c, const Weight& weight, DType dtype,
                    const QmmBenchRun& run) {
  Product product(backend, c, weight, dtype);
  // Pages and caches get warm with every copy once, unless that takes longer than a second.
  const double first = product.run(1);
  product.run(std::min<int64_t>(int64_t(weight.copies.size()), int64_t(1e9 / first)));
  const double once = first > kLeastSampleNs ? first : product.run(2) / 2;
  const int64_t n = std::max<int64_t>(1, int64_t(std::ceil(kLeastSampleNs / once)));
  std::vector<double> us;
  for (int64_t i = 0; i < run.repeats; ++i) us.push_back(product.run(n) / double(n) * 1e-3);
  const SampleStats s = sample_stats(us);
  const double bytes = double(weight_bytes(weight.host)) + double(c.m * (c.n + c.k)) * double(dtype_bytes(dtype));
  const double gbps = bytes / s.median * 1e-3;
  const double off = error_of(weight.host, product.x_host, product.result(), dtype, c.m);

  OrderedJson row = OrderedJson::object();
  for (const char* key : kKeys) row[key] = run.base.contains(key) ? run.base[key] : OrderedJson(nullptr);
  row["schema"] = kSchema;
  row["device"] = backend.device().name;
  row["n_threads"] = backend.device().n_threads;
  row["format"] = format_name(c.format);
  row["x_dtype"] = dtype_name(dtype);
  row["n"] = c.n;
  row["k"] = c.k;
  row["m"] = c.m;
  row["kernel"] = c.kernel;
  row["route"] = c.route;
  row["chosen"] = c.is_chosen;
  row["median_us"] = number(s.median);
  row["min_us"] = number(s.min);
  row["max_us"] = number(s.max);
  row["samples_us"] = OrderedJson::array();
  for (const double x : us) row["samples_us"].push_back(number(x));
  row["gbps"] = number(gbps);
  if (run.ceiling_gbps > 0) {
    row["ceiling_gbps"] = number(run.ceiling_gbps);
    row["share"] = number(gbps / run.ceiling_gbps);
  }
  row["tflops"] = number(2.0 * double(c.m) * double(c.n) * double(c.k) / s.median * 1e-6);
  row["error"] = number(off);
  row["n_copies"] = weight.copies.size();
  row["bytes"] = std::llround(bytes);
  row["status"] = off <= kTolerance ? "ok" : "FAIL:wrong";
  return row;
}

bool is_same_weight(const QmmBenchCase& a, const QmmBenchCase& b) {
  return a.n == b.n && a.k == b.k && a.format == b.format;
}

}  // namespace

std::span<const char* const> qmm_bench_keys() {
  return kKeys;
}

std::vector<QmmBenchCase> plan_qmm_bench(const Options& o, const std::string& which) {
  const std::unique_ptr<Backend> backend = backend_from_options(o);
  check_route_name(*backend, which);
  const std::vector<std::string> default_shape = {"4096x4096"}, default_m = {"1-512*2"};
  const auto shapes = parse_shapes("--shape", o.shape.empty() ? default_shape : o.shape);
  const auto ms = parse_numbers("--m-rows", o.m_rows.empty() ? default_m : o.m_rows, 1, 1 << 20);
  std::vector<QmmBenchCase> cases;
  for (const std::string& name : split_text(o.format, ',')) {
    QuantFormat format = parse_format("--format", name);
    if (format.kind == QuantKind::Dense) format.bits = 16;
    for (const auto& [n, k] : shapes) {
      if (format.group > 0 && k % format.group != 0)
        fail(Code::BadRequest, "--shape {}x{}: {} inputs are no multiple of the group of {}", n, k, k, name);
      for (const int64_t m : ms) add_cases(*backend, spec_of(format, n, k, activation_dtype(o)), m, which, cases);
    }
  }
  if (cases.empty()) fail(Code::BadRequest, "no row can run what is asked for; loft routes says why");
  return cases;
}

void run_qmm_bench(const std::vector<QmmBenchCase>& cases, const QmmBenchRun& run,
                   const std::function<void(const OrderedJson&)>& on_row) {
  const DType dtype = activation_dtype(run.options);
  const std::unique_ptr<Backend> backend = backend_from_options(run.options);
  std::unique_ptr<Weight> weight;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (run.stop && run.stop()) return;
    const QmmBenchCase& c = cases[i];
    if (i == 0 || !is_same_weight(cases[i - 1], c)) {
      weight = std::make_unique<Weight>();
      weight->host = make_host_weight(spec_of(c.format, c.n, c.k, dtype), *weight);
      make_copies(*backend, copies_for(*backend, weight_bytes(weight->host), run.is_warm), *weight);
    }
    on_row(measure(*backend, c, *weight, dtype, run));
  }
}

}  // namespace loft
