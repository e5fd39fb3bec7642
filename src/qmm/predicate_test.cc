// qmm: the predicate says yes exactly where one of the two dequantize + GEMM routes multiplies 16-bit rows.
#include "qmm/predicate.h"

#include <gtest/gtest.h>

#include "backend/described_devices.h"
#include "qmm/policy.h"
#include "qmm/route.h"

namespace loft {
namespace {

QmmProblem problem_of(int64_t m, DType dtype, int bits = 4, int group = 64) {
  return {{.format = {QuantKind::Affine, bits, group},
           .x_dtype = dtype,
           .scale_dtype = dtype,
           .has_biases = true,
           .n = 4096,
           .k = 4096},
          m};
}

/// On gfx1151, where it was published, and on a CPU that routes as one.
bool runs(const QmmProblem& problem, QmmPolicy policy = {}) {
  const bool there = quantized_matmul_runs_dequant_gemm(*described_device(kPublishedDevice), problem, policy);
  policy.route_as = kPublishedDevice;
  EXPECT_EQ(quantized_matmul_runs_dequant_gemm(*described_device("cpu-avx2"), problem, policy), there);
  return there;
}

/// Seen to fail with either enumerator left out. Mutants: predicate_cached, predicate_above_ceiling.
TEST(Predicate, BothRoutesAreDequantizeAndGemm) {
  EXPECT_TRUE(runs(problem_of(128, DType::BF16))) << "above the ceiling";
  EXPECT_TRUE(runs(problem_of(128, DType::F16))) << "through the cache";
  QmmPolicy before;
  before.above_ceiling = QmmAboveCeiling::Cache;
  EXPECT_TRUE(runs(problem_of(128, DType::BF16), before));
}

TEST(Predicate, TheOtherRoutesAreNot) {
  EXPECT_FALSE(runs(problem_of(8, DType::BF16))) << "Gemv";
  EXPECT_FALSE(runs(problem_of(127, DType::BF16))) << "WmmaDense";
  EXPECT_FALSE(runs(problem_of(23, DType::F16))) << "below the crossover";
  EXPECT_TRUE(runs(problem_of(24, DType::F16)));
  const DeviceInfo fp8 = *described_device("gfx1201");
  EXPECT_FALSE(quantized_matmul_runs_dequant_gemm(fp8, problem_of(128, DType::BF16, 5), {})) << "DequantFp8Gemm";
  QmmPolicy off;
  off.dequant_gemm = false;
  EXPECT_FALSE(runs(problem_of(128, DType::F16), off));
}

/// Seen to fail with either of the first two questions taken out. Mutant: predicate_one_row.
TEST(Predicate, OneRowWideTypesAndAMissingLibraryAreNot) {
  EXPECT_FALSE(runs(problem_of(1, DType::F16, 3))) << "3 bits always dequantize, but one row is no GEMM";
  EXPECT_TRUE(runs(problem_of(2, DType::F16, 3)));
  EXPECT_FALSE(runs(problem_of(128, DType::F32)));
  DeviceInfo bare = *described_device(kPublishedDevice);
  bare.has_gemm_library = false;
  EXPECT_FALSE(quantized_matmul_runs_dequant_gemm(bare, problem_of(128, DType::F16), {}));
  DeviceInfo bare_cpu = *described_device("cpu-avx2");
  bare_cpu.has_gemm_library = false;
  QmmPolicy published;
  published.route_as = kPublishedDevice;
  EXPECT_FALSE(quantized_matmul_runs_dequant_gemm(bare_cpu, problem_of(128, DType::F16), published));
}

TEST(Predicate, ACpuByItsOwnTableDequantizesWhenAskedTo) {
  const DeviceInfo cpu = *described_device("cpu-zen4");
  EXPECT_FALSE(quantized_matmul_runs_dequant_gemm(cpu, problem_of(512, DType::BF16), {}));
  QmmPolicy asked;
  asked.fused_max_m = 128;
  EXPECT_TRUE(quantized_matmul_runs_dequant_gemm(cpu, problem_of(512, DType::BF16), asked));
  EXPECT_FALSE(quantized_matmul_runs_dequant_gemm(cpu, problem_of(127, DType::BF16), asked));
}

}  // namespace
}  // namespace loft
