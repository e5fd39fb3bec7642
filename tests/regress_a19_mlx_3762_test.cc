// Public report A19, ml-explore/mlx#3762: with fewer than 8 outputs the mxfp4 matrix-vector kernel used the raw scale
// byte in one of its loops. Right: dequantize, then multiply, for every n and every mode.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_test_data.h"
#include "quant/reference.h"

namespace loft {
namespace {

/// Inputs of one block, several blocks, and several blocks with a tail of every kernel's step.
std::array<int64_t, 3> inputs_of(const QuantFormat& f) {
  const int64_t group = f.group;
  return {std::max<int64_t>(group, 32), 512, 512 + 3 * std::max<int64_t>(group, 32)};
}

void expect_right(const testing::TestWeight& w, int64_t m) {
  const std::vector<float> x = testing::make_test_x(m, w.view.k, DType::F32, 11);
  const std::vector<double> reference = reference_matmul(x, w.view);
  const std::vector<double> bound = testing::error_bound(x, w.view, true);
  const DeviceInfo device = {.kind = DeviceKind::Cpu, .name = "host", .isa = detect_isa(), .n_threads = 1};
  const QmmSpec spec = testing::test_spec(w.view, DType::F32);
  ThreadPool pool(1);
  for (const QmmKernel& row : cpu_qmm_table()) {
    const MRange range = row.m_range(spec, device, {});
    if (!row.entry || row.reject(spec, device, {}) || m < range.lo || m > range.hi) continue;
    std::vector<float> y(size_t(m * w.view.n), NAN);
    std::vector<uint8_t> workspace(row.workspace_bytes(spec, m, device) + 64);
    uint8_t* const aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
    const QmmPart part{
        .kernel = &row, .weight = &w.view, .packed = nullptr, .y = make_tensor(y.data(), DType::F32, {m, w.view.n})};
    CpuPanels panels{.bytes = device.panel_bytes};
    cpu_run_qmm(pool, panels,
                {.x = make_tensor(const_cast<float*>(x.data()), DType::F32, {m, w.view.k}),
                 .parts = std::span(&part, 1),
                 .workspace = aligned,
                 .workspace_bytes = workspace.size() - 64});
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_LE(std::fabs(y[i] - reference[i]), bound[i] + 1e-20)
          << row.name << " " << format_name(w.view.format) << " n " << w.view.n << " k " << w.view.k << " m " << m;
    }
  }
}

TEST(RegressA19, FewOutputsAreRightInEveryMode) {
  std::vector<QuantFormat> formats = {{QuantKind::Mxfp4, 4, 32}, {QuantKind::Mxfp8, 8, 32}, {QuantKind::Nvfp4, 4, 16}};
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) formats.push_back({QuantKind::Affine, bits, group});
  }
  uint32_t seed = 0;
  for (const QuantFormat& format : formats) {
    for (int64_t n = 1; n <= 9; ++n) {
      for (int64_t k : inputs_of(format)) {
        const testing::TestWeight w = testing::make_test_weight({.format = format, .n = n, .k = k, .seed = ++seed});
        for (int64_t m : {1, 3}) expect_right(w, m);
      }
    }
  }
}

}  // namespace
}  // namespace loft
