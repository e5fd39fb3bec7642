// apps: loft routes: which kernel row serves which rows of x, on any described device; the counters of simulated
// passes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/apps.h"
#include "apps/output.h"
#include "backend/described_devices.h"
#include "core/error.h"
#include "core/json.h"
#include "engine/open_engine.h"
#include "model/pass_products.h"
#include "model/synth.h"
#include "qmm/explain.h"
#include "qmm/policy.h"
#include "qmm/route.h"

namespace loft {
namespace {

struct Device {
  DeviceInfo info;
  std::span<const QmmKernel> table;
};

// The device whose table decides: the one that a real pass with these options routes as, else the one that is named.
Device device_of(const Options& o) {
  const bool is_here = o.device == "cpu" || o.device == "auto";
  DeviceInfo info = is_here ? DeviceInfo{} : find_described_device(o.device);
  const std::string route_as = qmm_policy(o, info.kind).route_as;
  if (!route_as.empty()) {
    info = find_described_device(route_as);
  } else if (is_here) {
    info = backend_from_options(o)->device();
  }
  return {info, qmm_table_of(info.kind)};
}

QmmPolicy policy_of(const Options& o, const Device& device) {
  QmmPolicy policy = qmm_policy(o, device.info.kind);
  policy.route_as.clear();  // this device answers for itself
  return policy;
}

DType dtype_of(const Options& o, DeviceKind kind) {
  if (o.dtype != "auto") return *dtype_from_name(o.dtype);
  return kind == DeviceKind::Cpu ? DType::F32 : DType::BF16;
}

ModelConfig shape_config(const std::string& name) {
  std::vector<std::string> known;
  for (const SynthShape& shape : synth_shapes()) {
    if (name == shape.name) return parse_config(shape.config_json, name);
    known.emplace_back(shape.name);
  }
  const std::string near = nearest_name(name, known);
  fail(Code::NotFound, "no model shape '{}'{}; there are {}", name,
       near.empty() ? "" : fmt::format("; did you mean {}?", near), synth_shape_names());
}

/// Stretches of m with one answer, up to kMostRows.
constexpr int64_t kMostRows = 4096;
struct Stretch {
  MRange m;
  const QmmKernel* kernel = nullptr;
};

std::vector<Stretch> stretches(const QmmSpec& spec, const Device& device, const QmmPolicy& policy) {
  const Layout layout = choose_layout(spec, device.info, policy, device.table);
  std::vector<Stretch> out;
  for (int64_t m = 1; m <= kMostRows;) {
    const RouteDecision d = select_qmm_route({spec, m}, layout, device.info, policy, device.table);
    if (!d.kernel) fail(Code::Unsupported, "{}", explain({spec, m}, device.info, d));
    const int64_t last = std::min(d.same.hi, kMostRows);
    if (!out.empty() && out.back().kernel == d.kernel) {
      out.back().m.hi = last;
    } else {
      out.push_back({{m, last}, d.kernel});
    }
    m = last + 1;
  }
  return out;
}

std::string rows_text(const MRange& m) {
  if (m.hi >= kMostRows) return m.lo == 1 ? "any" : fmt::format("{}..", m.lo);
  return m.lo == m.hi ? fmt::format("{}", m.lo) : fmt::format("{}..{}", m.lo, m.hi);
}

void print_table(const Options& o, const std::vector<PassProduct>& products) {
  const Device device = device_of(o);
  const QmmPolicy policy = policy_of(o, device);
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (const PassProduct& p : products) {
    if (std::find(seen.begin(), seen.end(), std::pair(p.spec.n, p.spec.k)) != seen.end()) continue;
    seen.emplace_back(p.spec.n, p.spec.k);
    std::string text = fmt::format("{} {} n {} k {} on {} ({})\n", format_name(p.spec.format),
                                   dtype_name(p.spec.x_dtype), p.spec.n, p.spec.k, device.info.name, p.name);
    for (const Stretch& s : stretches(p.spec, device, policy)) {
      text += fmt::format("  m {:<10} {:<28} {}\n", rows_text(s.m), route_name(s.kernel->route), s.kernel->name);
    }
    write_data(text);
  }
}

void print_simulation(const Options& o) {
  const Device device = device_of(o);
  const DType dtype = dtype_of(o, device.info.kind);
  const std::vector<PassProduct> products =
      pass_products(shape_config(*o.simulate), parse_format("--format", o.format), dtype);
  const QmmPolicy policy = policy_of(o, device);
  const QmmStats stats = simulate({.products = products,
                                   .rows = int64_t(o.rows),
                                   .passes = int64_t(o.passes),
                                   .device = device.info,
                                   .policy = policy,
                                   .table = device.table,
                                   .cache_mode = dequant_cache_mode(o),
                                   .cache_limits = dequant_cache_limits(o)});
  const char* policy_name = policy.kind == QmmPolicyKind::Published ? "published" : "loft";
  if (o.json) {
    const OrderedJson out = {{"schema", "loft.routes/1"}, {"shape", *o.simulate},        {"device", device.info.name},
                             {"policy", policy_name},     {"dtype", dtype_name(dtype)},  {"rows", o.rows},
                             {"passes", o.passes},        {"qmm", qmm_stats_json(stats)}};
    return write_data(dump_json(out) + "\n");
  }
  std::string text = fmt::format("{}: {} passes of {} rows, {}, policy {}, {}\n", *o.simulate, o.passes, o.rows,
                                 device.info.name, policy_name, dtype_name(dtype));
  for (int i = 0; i < kQmmRoutes; ++i) {
    if (stats.routes[size_t(i)] > 0)
      text += fmt::format("{:<28} {}\n", route_name(QmmRoute(i)), stats.routes[size_t(i)]);
  }
  write_data(text + dequant_cache_line(stats.cache, device.info.kind == DeviceKind::Hip ? "ROCm" : "CPU") + "\n");
}

// The lines of a table: which row runs at which m, for n = k = 4096.
std::string answer_lines(const QuantFormat& format, DType dtype, const Device& device) {
  const FormatRow& row = format_row(format.kind);
  const QmmSpec spec{.format = format,
                     .x_dtype = dtype,
                     .scale_dtype = row.has_biases ? dtype : row.scale_dtype,
                     .has_biases = row.has_biases,
                     .n = 4096,
                     .k = 4096};
  std::string out;
  for (const Stretch& s : stretches(spec, device, qmm_policy({}, device.info.kind))) {
    out += fmt::format("| {} | {} | `{}` |\n", rows_text(s.m), route_name(s.kernel->route), s.kernel->name);
  }
  return out;
}

// One table a described device: for each format and type of x, which row runs at which m, at a middle shape.
void print_markdown() {
  constexpr const char* kFormats[] = {"affine4g64", "affine8g64", "affine6g64", "affine3g64",
                                      "affine4g32", "mxfp4",      "mxfp8",      "nvfp4"};
  std::string out =
      "# Routes\n\nGenerated by `loft routes --markdown`; do not edit. Which kernel row serves a product with n = k = "
      "4096, for "
      "each described\ndevice, weight format and type of x, by rows of x (m, up to 4096), under the device's own "
      "policy and "
      "default options.\n`loft routes --device NAME` shows other shapes, `--explain-routes` the refusals.\n";
  for (const DeviceInfo& info : described_devices()) {
    const Device device{info, qmm_table_of(info.kind)};
    // Formats with one answer share its lines.
    std::vector<std::pair<std::string, std::string>> answers;  // lines, and who gets them
    for (const char* name : kFormats) {
      for (DType dtype : {DType::F32, DType::BF16}) {
        const std::string lines = answer_lines(*format_from_name(name), dtype, device);
        const std::string asked = fmt::format("{} x {}", name, dtype_name(dtype));
        const auto same = std::find_if(answers.begin(), answers.end(), [&](const auto& a) { return a.first == lines; });
        if (same == answers.end()) {
          answers.emplace_back(lines, asked);
        } else {
          same->second += ", " + asked;
        }
      }
    }
    out += fmt::format("\n## {}\n", info.name);
    for (const auto& [lines, asked] : answers) {
      out += fmt::format("\n{}\n\n| m | route | row |\n|---|---|---|\n{}", asked, lines);
    }
  }
  write_data(out);
}

}  // namespace

int run_routes(const ParsedArgs& args) {
  const Options& o = args.options;
  if (o.markdown) {
    print_markdown();
  } else if (o.simulate) {
    print_simulation(o);
  } else {
    const std::string shape = args.positionals.empty() ? "llama-3.1-8b" : args.positionals[0];
    print_table(
        o, pass_products(shape_config(shape), parse_format("--format", o.format), dtype_of(o, device_of(o).info.kind)));
  }
  return 0;
}

}  // namespace loft
