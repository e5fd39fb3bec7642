// backend/cpu: the own exp, tanh and conversions of the row kernels, through the table of each instruction set.
#include "backend/cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/cpu_info.h"

namespace loft {
namespace {

std::vector<const RowKernels*> tables() {
  std::vector<const RowKernels*> all = {&kRowKernelsScalar};
#if defined(__x86_64__)
  if (detect_isa() & kIsaAvx2) all.push_back(&kRowKernelsAvx2);
  if (detect_isa() & kIsaAvx512) all.push_back(&kRowKernelsAvx512);
#elif defined(__aarch64__)
  all.push_back(&kRowKernelsNeon);
#endif
  return all;
}

double ulp(double x) {
  const float f = std::max(std::abs(float(x)), 0x1p-126f);
  return double(std::nextafter(f, INFINITY)) - double(f);
}

/// Floats of all sizes in (-limit, limit), both signs, and the neighbours of 0.
std::vector<float> probes(float limit) {
  std::vector<float> x = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 1e-30f, limit, -limit};
  std::mt19937_64 random(3);
  std::uniform_real_distribution<float> plain(-limit, limit), power(-40.0f, std::log2(limit));
  for (int i = 0; i < 200000; ++i) x.push_back(plain(random));
  for (int i = 0; i < 200000; ++i) x.push_back((i % 2 ? -1.0f : 1.0f) * std::exp2(power(random)));
  return x;
}

double worst_ulps(const std::vector<float>& x, const std::vector<float>& y, double (*reference)(double)) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = reference(double(x[i]));
    const double off = std::abs(double(y[i]) - wanted) / ulp(wanted);
    if (off > worst || std::isnan(off)) worst = off;
    if (std::isnan(off)) break;
  }
  return worst;
}

TEST(RowKernels, TanhIsWithinTwoAndAHalfUlps) {
  for (const RowKernels* t : tables()) {
    const auto x = probes(12.0f);
    std::vector<float> y(x.size());
    t->softcap[0](x.data(), 1.0f, y.data(), int64_t(x.size()));  // 1 * tanh(x / 1)
    EXPECT_LE(worst_ulps(x, y, [](double v) { return std::tanh(v); }), 2.5) << t->name;
    const std::vector<float> ends = {INFINITY, -INFINITY, 1e30f, -0.0f, NAN};
    y.resize(ends.size());
    t->softcap[0](ends.data(), 1.0f, y.data(), 5);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], -1.0f);
    EXPECT_EQ(y[2], 1.0f);
    EXPECT_TRUE(y[3] == 0.0f && std::signbit(y[3]));
    EXPECT_TRUE(std::isnan(y[4]));
  }
}

TEST(RowKernels, ExpAndSigmoidAreAccurate) {
  for (const RowKernels* t : tables()) {
    // silu(x) = x / (1 + e^-x): one exp of 2 ulp, a sum and a division.
    const auto x = probes(87.0f);
    std::vector<float> y(x.size()), one(x.size(), 1.0f);
    t->silu_mul[0](x.data(), one.data(), y.data(), int64_t(x.size()));
    EXPECT_LE(worst_ulps(x, y, [](double v) { return v / (1.0 + std::exp(-v)); }), 3.5) << t->name;
    const std::vector<float> ends = {INFINITY, -200.0f, 200.0f, NAN, -INFINITY};
    t->silu_mul[0](ends.data(), one.data(), y.data(), 5);
    EXPECT_EQ(y[0], INFINITY);
    EXPECT_TRUE(y[1] == 0.0f && std::signbit(y[1]));
    EXPECT_EQ(y[2], 200.0f);
    EXPECT_TRUE(std::isnan(y[3]));
  }
}

TEST(RowKernels, GeluHasNoCancellation) {
  for (const RowKernels* t : tables()) {
    const auto x = probes(4.0f);
    std::vector<float> y(x.size()), one(x.size(), 1.0f);
    t->gelu_tanh_mul[0](x.data(), one.data(), y.data(), int64_t(x.size()));
    const auto gelu = [](double v) {
      const double a = std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v);
      return v / (1.0 + std::exp(-2.0 * a));
    };
    // Two or three roundings of the argument, each multiplied by its size, up to 2a = 11.
    EXPECT_LE(worst_ulps(x, y, gelu), 32.0) << t->name;
  }
}

TEST(RowKernels, SixteenBitFloatsRoundAsTheScalarConversionsDo) {
  for (const RowKernels* t : tables()) {
    std::vector<float> x;
    std::mt19937_64 random(5);
    for (int i = 0; i < 300000; ++i) x.push_back(std::bit_cast<float>(uint32_t(random())));
    for (uint32_t u = 0; u < 0x10000; ++u) {
      x.push_back(std::bit_cast<float>(u << 16 | 0x8000u));  // ties of bf16
      x.push_back(f16_to_f32(uint16_t(u)) * (1.0f + 0x1p-11f));
    }
    std::vector<uint16_t> half(x.size()), bf16(x.size());
    t->scale_cast[0][1](x.data(), 1.0f, half.data(), int64_t(x.size()));
    t->scale_cast[0][2](x.data(), 1.0f, bf16.data(), int64_t(x.size()));
    std::vector<float> back(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(f16_to_f32(half[i])) && std::isnan(bf16_to_f32(bf16[i])));
        continue;
      }
      ASSERT_EQ(half[i], f32_to_f16(x[i])) << t->name << " " << x[i];
      ASSERT_EQ(bf16[i], f32_to_bf16(x[i])) << t->name << " " << x[i];
    }
    std::vector<uint16_t> all(0x10000);
    for (uint32_t u = 0; u < 0x10000; ++u) all[u] = uint16_t(u);
    back.resize(all.size());
    t->scale_cast[1][0](all.data(), 1.0f, back.data(), 0x10000);
    for (uint32_t u = 0; u < 0x10000; ++u) {
      const float wanted = f16_to_f32(uint16_t(u));
      ASSERT_TRUE(back[u] == wanted || (std::isnan(back[u]) && std::isnan(wanted))) << t->name << " " << u;
    }
  }
}

TEST(RowKernels, TablesWithFmaAgreeToTheBit) {
  const auto all = tables();
  if (all.size() < 3) GTEST_SKIP() << "needs AVX2 and AVX-512";
  const auto x = probes(20.0f);
  const std::vector<float> one(x.size(), 1.25f);
  std::vector<float> a(x.size()), b(x.size());
  const int64_t n = int64_t(x.size()) - 3;
  for (int op = 0; op < 4; ++op) {
    for (const auto& [t, y] : {std::pair(all[1], a.data()), std::pair(all[2], b.data())}) {
      if (op == 0) t->silu_mul[0](x.data(), one.data(), y, n);
      if (op == 1) t->gelu_tanh_mul[0](x.data(), one.data(), y, n);
      if (op == 2) t->softcap[0](x.data(), 3.0f, y, n);
      if (op == 3) t->rms_norm[0][0](x.data(), one.data(), y, 1000, 1e-5f, 0.0f);
    }
    EXPECT_EQ(std::memcmp(a.data(), b.data(), size_t(n) * sizeof(float)), 0) << op;
  }
}

}  // namespace
}  // namespace loft
