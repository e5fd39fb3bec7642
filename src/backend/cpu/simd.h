// backend/cpu: sixteen floats as one value, for the row kernels. Included only by files that are built once for each
// instruction set: all names live in a namespace of that set, so the linker can never mix them up. Lane order and the
// trees of sums are the same in every build; with FMA (AVX2, AVX-512, NEON) results are equal to the bit.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(LOFT_SIMD_NEON)
#include <arm_neon.h>
#endif

#include "backend/cpu/row_kernels.h"

#ifndef LOFT_SIMD_NAMESPACE
#error "define LOFT_SIMD_NAMESPACE before including backend/cpu/simd.h"
#endif
#define LOFT_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include "backend/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "backend/cpu/simd_avx2.h"
#elif defined(LOFT_SIMD_NEON)
#include "backend/cpu/simd_neon.h"
#else
#include "backend/cpu/simd_generic.h"
#endif

namespace loft::LOFT_SIMD_NAMESPACE {

#if !defined(__AVX2__)  // those of AVX2 and AVX-512 join lanes without a whole transpose
/// Lane j of the result is op over the lanes of a[j], by the tree of sum_lanes.
template <class Op>
LOFT_INLINE F join_lanes_16(const F* a, Op op) {
  F r[16];
  for (int i = 0; i < 16; ++i) r[i] = a[i];
  transpose_16(r);
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) r[i] = op(r[i], r[i + step]);
  }
  return r[0];
}
#endif

// Vectors a row of a register tile of four rows may hold: 32 registers of 16 lanes, or 16 of eight (two a vector).
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 1;
#endif

/// The first n of 16 elements, zeros above.
template <class T>
LOFT_INLINE F load_part(const T* p, int64_t n) {
  T part[16] = {};
  std::memcpy(part, p, size_t(n) * sizeof(T));
  return load(part);
}
template <class T>
LOFT_INLINE void store_part(T* p, F a, int64_t n) {
  T part[16];
  store(part, a);
  std::memcpy(p, part, size_t(n) * sizeof(T));
}

/// Lane j of the result is sum_lanes(a[j]), by the same tree, or the largest lane of a[j].
LOFT_INLINE F sum_lanes_16(const F* a) {
  return join_lanes_16(a, [](F x, F y) { return add(x, y); });
}
LOFT_INLINE F max_lanes_16(const F* a) {
  return join_lanes_16(a, [](F x, F y) { return max(x, y); });
}

LOFT_INLINE I load_ints(const int32_t* p) {
  float same_bits[16];
  std::memcpy(same_bits, p, sizeof same_bits);
  return bits(load(same_bits));
}

constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
constexpr float kLog2E = 1.44269504088896341f;
// ln 2 in two parts; the first has 9 trailing zero bits, so that n * kLn2High is exact for |n| < 2^9.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

/// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2: minimax (least squares, weights by the error), relative to e^r 2^-27.7.
LOFT_INLINE F exp_tail(F r) {
  F p = set1(0x1.6a23d4p-10f);
  p = fma(p, r, set1(0x1.123a26p-7f));
  p = fma(p, r, set1(0x1.5558f4p-5f));
  p = fma(p, r, set1(0x1.555490p-3f));
  return fma(p, r, set1(0x1.fffffcp-2f));
}

struct Reduced {
  F r;  // x - n ln2
  I n;
};
LOFT_INLINE Reduced reduce_exp(F x) {
  const F shifted = add(mul(x, set1(kLog2E)), set1(kRoundMagic));
  const F n = sub(shifted, set1(kRoundMagic));
  const F r = fnma(n, set1(kLn2Low), fnma(n, set1(kLn2High), x));
  return {r, isub(bits(shifted), bits(set1(kRoundMagic)))};
}
LOFT_INLINE F power_of_two(I n) {
  return from_bits(shl<23>(iadd(n, iset1(127))));
}

/// e^x within 2 ulp, subnormal results included; overflow gives infinity, NaN stays.
LOFT_INLINE F exp(F x) {
  const Reduced a = reduce_exp(min(set1(89.0f), max(set1(-104.5f), x)));
  const F p = add(fma(mul(a.r, a.r), exp_tail(a.r), a.r), set1(1.0f));
  // In two factors: 2^n alone leaves the range of normal numbers at both ends.
  const I half = sar<1>(a.n);
  return mul(mul(p, power_of_two(half)), power_of_two(isub(a.n, half)));
}

/// e^x for x <= 0 (or NaN) within 2 ulp; results below the normal numbers become 0.
LOFT_INLINE F exp_not_positive(F x) {
  constexpr float kBiased = kRoundMagic + 127.0f;  // the low bits hold n + 127, the exponent of 2^n
  const F y = max(set1(-88.0f), x);                // n = -127 at the clamp, and its power of two is 0
  const F shifted = fma(y, set1(kLog2E), set1(kBiased));
  const F n = sub(shifted, set1(kBiased));
  const F r = fnma(n, set1(kLn2Low), fnma(n, set1(kLn2High), y));
  const F p = fma(fma(exp_tail(r), r, set1(1.0f)), r, set1(1.0f));
  return mul(p, from_bits(shl<23>(bits(shifted))));
}

/// tanh within 2.4 ulp: t / (t + 2) with t = e^(2|x|) - 1 formed without cancellation.
LOFT_INLINE F tanh(F x) {
  const I sign = iand(bits(x), iset1(int32_t(0x80000000u)));
  const F magnitude = from_bits(iand(bits(x), iset1(0x7fffffff)));
  const F twice = min(set1(20.0f), add(magnitude, magnitude));  // tanh(10) rounds to 1
  const Reduced a = reduce_exp(twice);
  const F p = fma(mul(a.r, a.r), exp_tail(a.r), a.r);  // e^r - 1
  const F scale = power_of_two(a.n);
  const F t = fma(p, scale, sub(scale, set1(1.0f)));
  return from_bits(ior(bits(div(t, add(t, set1(2.0f)))), sign));
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
