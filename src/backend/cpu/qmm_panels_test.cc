// backend/cpu: dequantize + GEMM over panels: right against the reference, and the same bytes wherever the dense rows
// come from and however many threads run.
#include <gtest/gtest.h>

#include <array>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_rows.h"
#include "backend/cpu/qmm_test_data.h"
#include "core/buffer.h"
#include "quant/reference.h"

namespace loft {
namespace {

using testing::TestWeight;

constexpr float kCanary = 8960.0f;  // exact in bf16 and f16
constexpr size_t kGuardBytes = 256;

const QmmKernel& panels_row() {
  for (const QmmKernel& row : cpu_qmm_table()) {
    if (row.entry == &kPanelsEntry) return row;
  }
  fail(Code::Internal, "no row over panels");
}

struct Run {
  DType dtype = DType::F32;
  int n_threads = 1;
  int64_t panel_bytes = 5 << 18;
  bool from_dense = false;  // the weight decoded beforehand, as a cache or a temporary holds it
};

struct Product {
  std::vector<float> y;  // [m, n]
  uint64_t high_water_bytes = 0, gemm_fallbacks = 0;
};

/// y begins as NaN inside canaries; the workspace is exactly as large as the row asks for, with a guard behind it.
Product run(const QuantWeight& w, std::span<const float> x, const Run& how) {
  const int64_t m = int64_t(x.size()) / w.k;
  const int64_t pitch = w.n + 5;
  std::vector<uint8_t> x_bytes = testing::as_dtype(x, how.dtype);
  std::vector<float> y_values(size_t((m + 2) * pitch), kCanary);
  for (int64_t i = 0; i < m * w.n; ++i) y_values[size_t((i / w.n + 1) * pitch + i % w.n)] = NAN;
  std::vector<uint8_t> y_bytes = testing::as_dtype(y_values, how.dtype);
  const DeviceInfo device = {.kind = DeviceKind::Cpu,
                             .name = "host",
                             .isa = detect_isa(),
                             .n_threads = how.n_threads,
                             .panel_bytes = how.panel_bytes};
  const size_t need = panels_row().workspace_bytes(testing::test_spec(w, how.dtype), m, device);
  std::vector<uint8_t> workspace(need + 64 + kGuardBytes, 0xff);
  uint8_t* const aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  std::fill(aligned + need, aligned + need + kGuardBytes, uint8_t{0x5a});
  ThreadPool pool(how.n_threads);
  std::vector<uint8_t> dense(how.from_dense ? size_t(w.n * w.k) * dtype_bytes(how.dtype) : 0);
  if (how.from_dense) cpu_dequantize(pool, row_kernels(detect_isa()), w, how.dtype, dense.data());

  Tensor y = make_tensor(y_bytes.data() + size_t(pitch) * dtype_bytes(how.dtype), how.dtype, {m, w.n});
  y.stride[0] = pitch;
  const QmmPart part{.kernel = &panels_row(), .weight = &w, .dense = how.from_dense ? dense.data() : nullptr, .y = y};
  CpuPanels panels{.bytes = how.panel_bytes};
  panels.kernels = &row_kernels(detect_isa());
  cpu_run_qmm(pool, panels,
              {.x = make_tensor(x_bytes.data(), how.dtype, {m, w.k}),
               .parts = std::span(&part, 1),
               .workspace = aligned,
               .workspace_bytes = need});
  for (size_t i = 0; i < kGuardBytes; ++i) EXPECT_EQ(aligned[need + i], 0x5a) << "wrote past the workspace";
  Product out{.y = {}, .high_water_bytes = panels.high_water_bytes, .gemm_fallbacks = panels.gemm_fallbacks.load()};
  for (int64_t i = 0; i < (m + 2) * pitch; ++i) {
    const float v = load_float(y_bytes.data(), how.dtype, i);
    const int64_t r = i / pitch - 1, c = i % pitch;
    if (r >= 0 && r < m && c < w.n) {
      out.y.push_back(v);
    } else {
      EXPECT_EQ(v, kCanary) << "wrote outside y at row " << r << ", column " << c;
    }
  }
  return out;
}

/// The weight as the panels see it: decoded, rounded to the type of x.
TestWeight rounded_weight(const QuantWeight& w, DType dtype) {
  TestWeight dense =
      testing::make_test_weight({.format = {QuantKind::Dense, 32, 0}, .n = w.n, .k = w.k, .scale_dtype = DType::F32});
  for (int64_t n = 0; n < w.n; ++n) {
    decode_rounded_row(kRowKernelsScalar, w, n, dtype, reinterpret_cast<float*>(dense.words.data()) + n * w.k);
  }
  return dense;
}

constexpr std::array<int64_t, 6> kN = {1, 15, 16, 17, 129, 260};
constexpr std::array<int64_t, 4> kK = {128, 384, 640, 1152};
constexpr std::array<int64_t, 5> kM = {1, 2, 17, 33, 100};

TEST(CpuPanels, EveryFormatIsRightAtAwkwardShapes) {
  uint32_t seed = 0;
  std::vector<QuantFormat> formats = {{QuantKind::Mxfp4, 4, 32}, {QuantKind::Mxfp8, 8, 32}, {QuantKind::Nvfp4, 4, 16}};
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) formats.push_back({QuantKind::Affine, bits, group});
  }
  for (const QuantFormat& format : formats) {
    for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
      ++seed;
      if (format.kind == QuantKind::Mxfp8 && dtype == DType::F16) continue;  // these test weights overflow f16
      const int64_t n = kN[seed % 6], k = kK[(seed / 3) % 4], m = kM[seed % 5];
      SCOPED_TRACE(fmt::format("{} x {} m {} n {} k {}", format_name(format), dtype_name(dtype), m, n, k));
      const TestWeight w =
          testing::make_test_weight({.format = format, .n = n, .k = k, .seed = seed, .unused_tail = seed % 8});
      const std::vector<float> x = testing::make_test_x(m, k, dtype, seed + 1);
      const TestWeight rounded = rounded_weight(w.view, dtype);
      const std::vector<double> reference = reference_matmul(x, rounded.view);
      const std::vector<double> bound = testing::error_bound(x, rounded.view, false);
      const Product p = run(w.view, x, {.dtype = dtype, .n_threads = 2});
      EXPECT_EQ(p.gemm_fallbacks, 0u);
      const double ulp = dtype == DType::F32 ? 0 : dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
      for (size_t i = 0; i < p.y.size(); ++i) {
        const double allowed = bound[i] + ulp * (std::fabs(reference[i]) + bound[i]) + 0x1p-24;
        ASSERT_LE(std::fabs(double(p.y[i]) - reference[i]), allowed) << "at " << i;  // NaN fails
      }
    }
  }
}

/// Decoded into panels, from a dense copy, at any number of threads: one partition, one order of sums.
TEST(CpuPanels, BytesDependNeitherOnThreadsNorOnWhereTheWeightComesFrom) {
  for (const QuantFormat& format : {QuantFormat{QuantKind::Affine, 4, 64}, QuantFormat{QuantKind::Mxfp4, 4, 32}}) {
    const TestWeight w = testing::make_test_weight({.format = format, .n = 777, .k = 640, .seed = 3});
    for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
      const std::vector<float> x = testing::make_test_x(37, 640, dtype, 4);
      const Product first = run(w.view, x, {.dtype = dtype});
      for (int n_threads : {1, 2, 3, 7}) {
        for (bool from_dense : {false, true}) {
          const Product p = run(w.view, x, {.dtype = dtype, .n_threads = n_threads, .from_dense = from_dense});
          EXPECT_EQ(std::memcmp(p.y.data(), first.y.data(), p.y.size() * 4), 0)
              << format_name(format) << " x " << dtype_name(dtype) << ", " << n_threads << " threads, "
              << (from_dense ? "dense" : "panels");
        }
      }
    }
  }
}

TEST(CpuPanels, NotANumberStaysInItsRow) {
  const TestWeight w = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 40, .k = 192});
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> x = testing::make_test_x(10, 192, DType::F32, 7);
    x[4 * 192 + 100] = bad;
    const Product p = run(w.view, x, {});
    for (size_t i = 0; i < p.y.size(); ++i) EXPECT_EQ(!std::isfinite(p.y[i]), i / 40 == 4) << i;
  }
}

/// The workspace follows from the panel size, a thread, and not from the weight.
TEST(CpuPanels, TheWorkspaceIsThePanelsAndIsReported) {
  constexpr int64_t kPanelBytes = 256 << 10;  // 48 outputs of 1040 floats: 1024 inputs and the padding
  const TestWeight small = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 64, .k = 1024});
  const TestWeight large = testing::make_test_weight({.format = {QuantKind::Affine, 4, 64}, .n = 1024, .k = 1024});
  const std::vector<float> x = testing::make_test_x(2, 1024, DType::F32, 1);
  for (int n_threads : {1, 3}) {
    for (const TestWeight* w : {&small, &large}) {
      const Product p = run(w->view, x, {.n_threads = n_threads, .panel_bytes = kPanelBytes});
      EXPECT_EQ(p.high_water_bytes, uint64_t(48 * 1040 * 4 * n_threads));
    }
  }
}

}  // namespace
}  // namespace loft
