// backend/cpu: the reference row. Any format on any CPU: weights decoded to f32 a run at a time, products summed in
// f32. One order at every m: 16 partial sums over k, then the partial sums in ascending order.
#include <algorithm>
#include <array>

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_rows.h"

namespace loft {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kRun = 512;       // a multiple of every group
constexpr int64_t kBlockRows = 16;  // rows of x that share one decoded run

using Lanes = std::array<float, kLanes>;

void add_run(const float* w, const float* x, int64_t count, Lanes& acc) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) acc[size_t(j)] += w[i + j] * x[i + j];
  }
  for (int j = 0; i < count; ++i, ++j) acc[size_t(j)] += w[i] * x[i];
}

void run_scalar(const CpuQmmRange& range) {
  const QuantWeight& w = *range.weight;
  const PreparedActivations& x = *range.x;
  for (int64_t n = range.begin; n < range.end; ++n) {
    for (int64_t m0 = 0; m0 < x.m; m0 += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, x.m - m0);
      std::array<Lanes, kBlockRows> acc{};
      for (int64_t k0 = 0; k0 < w.k; k0 += kRun) {
        std::array<float, kRun> run;
        const int64_t count = std::min(kRun, w.k - k0);
        dequantize_run(w, n, k0, count, run.data());
        for (int64_t r = 0; r < rows; ++r) add_run(run.data(), x.f32 + (m0 + r) * x.k + k0, count, acc[size_t(r)]);
      }
      for (int64_t r = 0; r < rows; ++r) {
        float sum = 0.0f;
        for (float lane : acc[size_t(r)]) sum += lane;
        store_y(*range.y, m0 + r, n, sum);
      }
    }
  }
}

ActivationKey f32_key(const QuantFormat&) {
  return {};
}
size_t no_scratch(const QmmSpec&, int64_t, int64_t) {
  return 0;
}

}  // namespace

const CpuQmmEntry kScalarEntry = {
    {}, /*key=*/f32_key, /*prepare=*/prepare_f32, /*scratch_bytes=*/no_scratch, /*run=*/run_scalar, /*n_step=*/1};

}  // namespace loft
