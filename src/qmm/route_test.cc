// qmm: the selector on described machines, and the structural rule that no product is left without a row.
#include "qmm/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/cpu_qmm.h"
#include "backend/described_devices.h"
#include "qmm/explain.h"

namespace loft {
namespace {

MRange up_to_8(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {1, 8};
}
MRange from_9(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {9, INT_MAX};
}
MRange any_m(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {};
}
MRange no_m(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {1, 0};
}
const char* takes_all(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return nullptr;
}
const char* needs_avx2(const QmmSpec&, const DeviceInfo& d, const QmmPolicy&) {
  return d.isa & kIsaAvx2 ? nullptr : "needs avx2";
}
size_t ten_a_row(const QmmSpec&, int64_t m, const DeviceInfo&) {
  return size_t(m) * 10;
}

const std::vector<QmmKernel> kToyRows = {
    {"packed", QmmRoute::WmmaDense, Layout::Panel16, true, any_m, needs_avx2, ten_a_row, nullptr},
    {"none", QmmRoute::WmmaDense, Layout::Checkpoint, true, no_m, takes_all, ten_a_row, nullptr},
    {"few", QmmRoute::Gemv, Layout::Checkpoint, true, up_to_8, takes_all, ten_a_row, nullptr},
    {"many", QmmRoute::WmmaDense, Layout::Checkpoint, true, from_9, takes_all, ten_a_row, nullptr},
    {"any", QmmRoute::Gemv, Layout::Checkpoint, true, any_m, takes_all, ten_a_row, nullptr},
};
const QmmSpec kSpec = {.format = {QuantKind::Affine, 4, 64}, .n = 16, .k = 64};

RouteDecision route(int64_t m, const DeviceInfo& device, const QmmPolicy& policy = {}) {
  const Layout layout = choose_layout(kSpec, device, policy, kToyRows);
  return select_qmm_route({.spec = kSpec, .m = m}, layout, device, policy, kToyRows);
}

TEST(Route, TheFirstRowThatFitsGivesTheLayout) {
  EXPECT_EQ(choose_layout(kSpec, *described_device("cpu-avx2"), {}, kToyRows), Layout::Panel16);
  EXPECT_EQ(choose_layout(kSpec, *described_device("cpu-scalar"), {}, kToyRows), Layout::Checkpoint);
}

TEST(Route, ADecisionHoldsForTheWholeRangeItNames) {
  const DeviceInfo device = *described_device("cpu-scalar");
  for (int64_t m = 1; m <= 40; ++m) {
    const RouteDecision d = route(m, device);
    ASSERT_NE(d.kernel, nullptr);
    EXPECT_STREQ(d.kernel->name, m <= 8 ? "few" : "many");
    EXPECT_EQ(d.same.lo, m <= 8 ? 1 : 9);
    EXPECT_EQ(d.same.hi, m <= 8 ? 8 : INT_MAX);
  }
}

TEST(Route, EveryRefusalHasItsReason) {
  const RouteDecision d = route(9, *described_device("cpu-scalar"));
  std::vector<std::string> reasons;
  for (const Refusal& r : d.refused) reasons.push_back(std::string(r.row->name) + ": " + r.why);
  EXPECT_THAT(reasons, ::testing::ElementsAre("packed: needs avx2", "none: no m fits", "few: m above its range"));
  const std::string text = explain({.spec = kSpec, .m = 9}, *described_device("cpu-scalar"), d);
  EXPECT_THAT(text, ::testing::HasSubstr("affine4g64 x f32"));
  EXPECT_THAT(text, ::testing::HasSubstr("needs avx2"));
  EXPECT_THAT(text, ::testing::HasSubstr("* many"));
}

TEST(Route, AForcedRowIsTheOnlyOne) {
  const DeviceInfo device = *described_device("cpu-scalar");
  EXPECT_STREQ(route(9, device, {.forced_kernel = "any"}).kernel->name, "any");
  EXPECT_EQ(route(9, device, {.forced_kernel = "few"}).kernel, nullptr);
  EXPECT_EQ(route(9, device, {.forced_kernel = "packed"}).kernel, nullptr);
}

TEST(Route, TheWorkspaceCoversEveryRowInReach) {
  EXPECT_EQ(largest_workspace_bytes(kSpec, 100, *described_device("cpu-scalar"), {}, kToyRows), 1000u);
}

std::vector<QuantFormat> all_formats() {
  std::vector<QuantFormat> formats = {{QuantKind::Dense, 32, 0},
                                      {QuantKind::Dense, 16, 0},
                                      {QuantKind::Mxfp4, 4, 32},
                                      {QuantKind::Mxfp8, 8, 32},
                                      {QuantKind::Nvfp4, 4, 16}};
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) formats.push_back({QuantKind::Affine, bits, group});
  }
  return formats;
}

/// Every described CPU (each instruction set) and GPU, by its own table and each CPU as every other device.
struct Machine {
  DeviceInfo device;
  std::string route_as;
};
std::vector<Machine> all_machines() {
  std::vector<Machine> out;
  for (const DeviceInfo& device : described_devices()) {
    out.push_back({device, ""});
    if (device.kind != DeviceKind::Cpu) continue;
    for (const DeviceInfo& as : described_devices()) out.push_back({device, as.name});
  }
  return out;
}

/// Options that take rows away or move their ranges.
std::vector<QmmPolicy> all_policies() {
  QmmPolicy f32, off, forced, low_ceiling, cache, early;
  f32.activations = QmmActivations::F32;
  off.fused = QmmFused::Off;
  off.dequant_gemm = false;
  forced.fused = QmmFused::Force;
  low_ceiling.fused_max_m = 1;
  cache.fused_max_m = 32;
  cache.above_ceiling = QmmAboveCeiling::Cache;
  early.dequant_m_threshold = 1;
  early.force_low_cu = true;
  QmmPolicy packed, packed_a8, packed_off = off;
  packed.repack = packed_off.repack = QmmRepack::On;
  packed_a8.repack = QmmRepack::Auto;
  packed_a8.activations = QmmActivations::A8;
  return {{}, f32, off, forced, low_ceiling, cache, early, packed, packed_a8, packed_off};
}

std::vector<QmmSpec> specs_of(const std::vector<int64_t>& ns, const std::vector<int64_t>& ks) {
  std::vector<QmmSpec> out;
  for (const QuantFormat& format : all_formats()) {
    for (int64_t n : ns) {
      for (int64_t k : ks) {
        if (format.group == 128 && k % 128 != 0) continue;
        for (DType x_dtype : {DType::F32, DType::F16, DType::BF16}) {
          out.push_back({.format = format,
                         .x_dtype = x_dtype,
                         .scale_dtype = x_dtype == DType::BF16 ? DType::BF16 : DType::F16,
                         .has_biases = format.kind == QuantKind::Affine,
                         .n = n,
                         .k = k});
        }
      }
    }
  }
  return out;
}

/// Problems for which the rows leave some m of 1..4096 without a kernel, over all of the above.
int count_holes(std::span<const QmmKernel> rows, const Machine& machine) {
  int holes = 0;
  const bool is_own = machine.route_as.empty();
  const std::vector<QmmSpec> specs =
      is_own ? specs_of({1, 7, 16, 576, 4096, 49152}, {128, 576, 640, 1536, 4096}) : specs_of({7, 4096}, {640, 4096});
  for (QmmPolicy policy : all_policies()) {
    policy.route_as = machine.route_as;
    for (const QmmSpec& spec : specs) {
      const Layout layout = choose_layout(spec, machine.device, policy, rows);
      for (int64_t m = 1; m <= 4096;) {
        const RouteDecision d = select_qmm_route({.spec = spec, .m = m}, layout, machine.device, policy, rows);
        if (!d.kernel) ++holes;
        m = d.same.hi + 1;
      }
    }
  }
  return holes;
}

TEST(Route, EveryProductHasARowAtEveryM) {
  for (const Machine& machine : all_machines()) {
    EXPECT_EQ(count_holes(qmm_table_of(machine.device.kind), machine), 0)
        << machine.device.name << " as " << machine.route_as;
  }
}

/// The walk above steps over the m that a decision names; here each m is asked.
TEST(Route, NoMInsideADecisionIsAHole) {
  for (const DeviceInfo& device : described_devices()) {
    const std::span<const QmmKernel> rows = qmm_table_of(device.kind);
    for (const QmmPolicy& policy : all_policies()) {
      for (int bits : {3, 4}) {
        const QmmSpec spec = {.format = {QuantKind::Affine, bits, 64},
                              .x_dtype = DType::BF16,
                              .scale_dtype = DType::BF16,
                              .has_biases = true,
                              .n = 4096,
                              .k = 4096};
        const Layout layout = choose_layout(spec, device, policy, rows);
        RouteDecision last;
        last.same = {1, 0};
        for (int64_t m = 1; m <= 4096; ++m) {
          const RouteDecision d = select_qmm_route({spec, m}, layout, device, policy, rows);
          ASSERT_TRUE(d.kernel && d.same.lo <= m && m <= d.same.hi) << device.name << " m " << m;
          ASSERT_TRUE(m > last.same.hi || d.kernel == last.kernel) << device.name << " m " << m;
          last = d;
        }
      }
    }
  }
}

std::string row_for(std::string_view device, const QuantFormat& format, QmmActivations activations, int64_t m) {
  const QmmSpec spec = {.format = format,
                        .scale_dtype = DType::F16,
                        .has_biases = format.kind == QuantKind::Affine,
                        .n = 4096,
                        .k = 4096};
  const QmmPolicy policy{.forced_kernel = "", .activations = activations};
  return select_qmm_route({.spec = spec, .m = m}, Layout::Checkpoint, *described_device(device), policy,
                          cpu_qmm_table())
      .kernel->name;
}

/// Seen to fail with the lower end of range_a8 at 1.
TEST(Route, EightBitActivationsAreForPromptsOnly) {
  for (const QuantFormat& format : {QuantFormat{QuantKind::Affine, 4, 64}, QuantFormat{QuantKind::Mxfp4, 4, 32}}) {
    EXPECT_EQ(row_for("cpu-icelake", format, QmmActivations::A8, 31), "qmm_codes_a16_avx512");
    EXPECT_EQ(row_for("cpu-icelake", format, QmmActivations::A8, 32), "qmm_codes_a8_avx512");
    EXPECT_EQ(row_for("cpu-icelake", format, QmmActivations::A16, 512), "qmm_codes_a16_avx512");
    EXPECT_EQ(row_for("cpu-icelake", format, QmmActivations::F32, 512), "qmm_any_f32_avx512");
  }
}

TEST(Route, EveryX86WithoutAvx512HasAFixedPointRow) {
  for (const QuantFormat& format : {QuantFormat{QuantKind::Affine, 3, 128}, QuantFormat{QuantKind::Nvfp4, 4, 16}}) {
    for (int64_t m : {1, 8, 512}) {
      EXPECT_EQ(row_for("cpu-avx2", format, QmmActivations::A16, m), "qmm_codes_a16_avx2");
      EXPECT_EQ(row_for("cpu-avxvnni", format, QmmActivations::A16, m), "qmm_codes_a16_avxvnni");
    }
  }
}

/// The rule of EveryProductHasARowAtEveryM would notice: without the reference row some products have none.
TEST(Route, WithoutTheReferenceRowThereAreHoles) {
  const std::span<const QmmKernel> rows = cpu_qmm_table();
  EXPECT_GT(count_holes(rows.first(rows.size() - 1), {*described_device("cpu-scalar"), ""}), 0);
}

TEST(Route, NamesAreUnique) {
  for (const QmmKernel& a : cpu_qmm_table()) {
    for (const QmmKernel& b : cpu_qmm_table()) EXPECT_TRUE(&a == &b || std::string(a.name) != b.name) << a.name;
  }
}

}  // namespace
}  // namespace loft
