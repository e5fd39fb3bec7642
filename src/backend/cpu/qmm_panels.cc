// backend/cpu: dequantize + GEMM over panels. A panel is a fixed run of outputs: its weights are decoded to f32 (or
// taken from the dense rows that a cache holds) and multiplied by oneDNN's sgemm, one single-threaded call a panel. The
// partition depends on the shape and the panel size only, so the bytes of y depend neither on the thread count nor on
// where the dense rows came from.
#include <dnnl.h>

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_rows.h"

extern "C" void omp_set_num_threads(int);  // of libgomp, the runtime of Debian's oneDNN; omp.h is not clang's to find

namespace loft {
namespace {

// Measured on a Zen 4 core, one thread, a panel of 128 outputs, k 2560, m 64 to 512: dnnl_sgemm 84 to 98 GF/s, OpenBLAS
// 0.3.21 70 to 93. More outputs than this leave too few panels for the threads of small matrices.
constexpr int64_t kPanelRowStep = 16;
constexpr int64_t kMaxPanelRows = 128;

void widen_row(const CpuQmmRange& range, int64_t row, float* out) {
  const int64_t k = range.weight->k;
  const uint8_t* dense = static_cast<const uint8_t*>(range.dense) + size_t(row * k) * dtype_bytes(range.y->dtype);
  range.kernels->scale_cast[float_index(range.y->dtype)][float_index(DType::F32)](dense, 1.0f, out, k);
}

// Rows of a panel stand this far apart: the library packs columns, and at a power of two they would share few cache
// sets (k 4096, 16 rows of x: 53 ms without the padding, 19 with it).
int64_t panel_stride(int64_t k) {
  return k + kPanelRowStep;
}

// The panel's weights as f32. Dense rows are copied even where they are f32: one stride, so one order of sums.
void fill_panel(const CpuQmmRange& range, int64_t first, int64_t rows, float* panel) {
  for (int64_t r = 0; r < rows; ++r) {
    float* const out = panel + r * panel_stride(range.weight->k);
    if (range.dense) {
      widen_row(range, first + r, out);
    } else {
      decode_rounded_row(*range.kernels, *range.weight, first + r, range.y->dtype, out);
    }
  }
}

// y [m, columns] = x [m, k] w [columns, k]^T in f32, summed by hand: what serves when the library refuses.
void multiply_plainly(const PreparedActivations& x, const float* w, int64_t columns, float* y, int64_t y_stride) {
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float sum = 0.0f;
      for (int64_t l = 0; l < x.k; ++l) sum += x.f32[i * x.k + l] * w[j * panel_stride(x.k) + l];
      y[i * y_stride + j] = sum;
    }
  }
}

void run_panel(const CpuQmmRange& range, int64_t first, int64_t rows) {
  const PreparedActivations& x = *range.x;
  const Tensor& y = *range.y;
  float* const panel = static_cast<float*>(range.scratch);
  const int64_t w_stride = panel_stride(x.k);
  fill_panel(range, first, rows, panel);
  // Other types than f32 get their product in a tile behind the panel and are rounded once.
  const bool is_direct = y.dtype == DType::F32;
  float* const tile = is_direct ? y.as<float>() + first : panel + align64(size_t(range.panel_rows * w_stride) * 4) / 4;
  const int64_t stride = is_direct ? y.stride[0] : rows;
  omp_set_num_threads(1);  // of this worker: the parallel loop is ours
  if (dnnl_sgemm('N', 'T', x.m, rows, x.k, 1.0f, x.f32, x.k, panel, w_stride, 0.0f, tile, stride) != dnnl_success) {
    multiply_plainly(x, panel, rows, tile, stride);
    if (range.gemm_fallbacks) range.gemm_fallbacks->fetch_add(1, std::memory_order_relaxed);
  }
  if (is_direct) return;
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < rows; ++j) store_y(y, i, first + j, tile[i * stride + j]);
  }
}

void run_panels(const CpuQmmRange& range) {
  for (int64_t first = range.begin; first < range.end; first += range.panel_rows) {
    run_panel(range, first, std::min(range.panel_rows, range.end - first));
  }
}

int64_t panel_rows(int64_t k, int64_t panel_bytes) {
  const int64_t fits = panel_bytes / (panel_stride(k) * int64_t(sizeof(float)));
  return std::clamp<int64_t>(fits / kPanelRowStep * kPanelRowStep, kPanelRowStep, kMaxPanelRows);
}

size_t panel_scratch_bytes(const QmmSpec& spec, int64_t m, int64_t panel_bytes) {
  const int64_t rows = panel_rows(spec.k, panel_bytes);
  const size_t panel = align64(size_t(rows * panel_stride(spec.k)) * sizeof(float));
  return spec.x_dtype == DType::F32 ? panel : panel + align64(size_t(m * rows) * sizeof(float));
}

ActivationKey f32_key(const QuantFormat&) {
  return {};
}

}  // namespace

void decode_rounded_row(const RowKernels& kernels, const QuantWeight& w, int64_t row, DType dtype, float* out) {
  dequantize_run(w, row, 0, w.k, out);
  if (dtype == DType::F32) return;
  constexpr int f32 = float_index(DType::F32);
  constexpr int64_t kRun = 256;
  uint16_t rounded[kRun];
  for (int64_t i = 0; i < w.k; i += kRun) {
    const int64_t n = std::min(kRun, w.k - i);
    kernels.scale_cast[f32][float_index(dtype)](out + i, 1.0f, rounded, n);
    kernels.scale_cast[float_index(dtype)][f32](rounded, 1.0f, out + i, n);
  }
}

const CpuQmmEntry kPanelsEntry = {{},
                                  /*key=*/f32_key,
                                  /*prepare=*/prepare_f32,
                                  /*scratch_bytes=*/panel_scratch_bytes,
                                  /*run=*/run_panels,
                                  /*n_step=*/kPanelRowStep,
                                  /*panel_rows=*/panel_rows};

}  // namespace loft
