// backend/cpu: bodies of the row kernels, included by one file an instruction set. Read simd.h first: F is 16 floats.
// Every function handles one row (or one head's rows), in a fixed order of operations.
#pragma once
#include "backend/cpu/simd.h"

namespace loft::LOFT_SIMD_NAMESPACE {

/// Calls vector(i) for each whole vector of n elements and part(i, count) for the rest.
template <class Whole, class Part>
LOFT_INLINE void for_vectors(int64_t n, Whole whole, Part part) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) whole(i);
  if (i < n) part(i, n - i);
}

/// y[i] = f(x[i]).
template <class X, class Y, class Function>
LOFT_INLINE void map_row(const X* x, Y* y, int64_t n, Function f) {
  for_vectors(
      n, [&](int64_t i) { store(y + i, f(load(x + i))); },
      [&](int64_t i, int64_t count) { store_part(y + i, f(load_part(x + i, count)), count); });
}

/// y[i] = f(a[i], b[i]).
template <class A, class B, class Y, class Function>
LOFT_INLINE void zip_row(const A* a, const B* b, Y* y, int64_t n, Function f) {
  for_vectors(
      n, [&](int64_t i) { store(y + i, f(load(a + i), load(b + i))); },
      [&](int64_t i, int64_t count) { store_part(y + i, f(load_part(a + i, count), load_part(b + i, count)), count); });
}

template <class X, class W>
void rms_norm_row(const void* x_data, const void* weight, void* y_data, int64_t d, float eps, float weight_offset) {
  const X* x = static_cast<const X*>(x_data);
  // Four chains hide the latency of the sum; vector i always goes to chain i % 4.
  F s[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= d; i += 64) {
    for (int c = 0; c < 4; ++c) {
      const F v = load(x + i + 16 * c);
      s[c] = fma(v, v, s[c]);
    }
  }
  for (int c = 0; i < d; i += 16, ++c) {
    const F v = load_part(x + i, d - i < 16 ? d - i : 16);
    s[c] = fma(v, v, s[c]);
  }
  const float sum = sum_lanes(add(add(s[0], s[1]), add(s[2], s[3])));
  const F inverse = set1(1.0f / __builtin_sqrtf(sum / float(d) + eps));
  const F offset = set1(weight_offset);
  zip_row(x, static_cast<const W*>(weight), static_cast<X*>(y_data), d,
          [&](F v, F w) { return mul(mul(v, inverse), add(w, offset)); });
}

/// cos and sin of position * inv_freq, times scale. The angle is reduced in double: at position 100000 a float angle is
/// off by up to 0.004 radians.
struct CosSin {
  F cos, sin;
};
LOFT_INLINE CosSin rope_angles(const float* inv_freq, int64_t count, int32_t position, F scale) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 1.57079632673412561417;  // 33 bits, so that its product with a quadrant is exact
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  float freq[16] = {};
  std::memcpy(freq, inv_freq, size_t(count) * sizeof(float));
  float rest[16];
  int32_t quadrant[16];
  for (int i = 0; i < 16; ++i) {
    const double angle = double(position) * double(freq[i]);
    const double turns = (angle * kTwoOverPi + kMagic) - kMagic;
    rest[i] = float((angle - turns * kHalfPiHigh) - turns * kHalfPiLow);
    quadrant[i] = int32_t(int64_t(turns) & 3);
  }
  const F r = load(rest);
  const F r2 = mul(r, r);
  // Taylor to r^9 and r^10 on |r| <= pi/4: the rest is below 2^-26.
  F s = fma(set1(1.0f / 362880), r2, set1(-1.0f / 5040));
  s = fma(s, r2, set1(1.0f / 120));
  s = fma(s, r2, set1(-1.0f / 6));
  s = fma(mul(s, r2), r, r);
  F c = fma(set1(-1.0f / 3628800), r2, set1(1.0f / 40320));
  c = fma(c, r2, set1(-1.0f / 720));
  c = fma(c, r2, set1(1.0f / 24));
  c = fma(c, r2, set1(-0.5f));
  c = fma(c, r2, set1(1.0f));
  // An odd quadrant swaps the two; bit 1 of q turns the sine's sign, bit 1 of q + 1 the cosine's.
  const I q = load_ints(quadrant), swap = isub(iset1(0), iand(q, iset1(1)));
  const I sine = ixor(bits(s), iand(swap, ixor(bits(s), bits(c))));
  const I cosine = ixor(bits(c), iand(swap, ixor(bits(s), bits(c))));
  const I sine_sign = shl<30>(iand(q, iset1(2))), cosine_sign = shl<30>(iand(iadd(q, iset1(1)), iset1(2)));
  return {mul(from_bits(ixor(cosine, cosine_sign)), scale), mul(from_bits(ixor(sine, sine_sign)), scale)};
}

template <class X>
void rope_row(void* data, int64_t n_heads, int64_t head_stride, const float* inv_freq, int64_t n_half, int32_t position,
              float scale) {
  for (int64_t i = 0; i < n_half; i += 16) {
    const int64_t count = n_half - i < 16 ? n_half - i : 16;
    const CosSin t = rope_angles(inv_freq + i, count, position, set1(scale));
    for (int64_t head = 0; head < n_heads; ++head) {
      X* low = static_cast<X*>(data) + head * head_stride + i;
      X* high = low + n_half;
      const F a = count == 16 ? load(low) : load_part(low, count);
      const F b = count == 16 ? load(high) : load_part(high, count);
      const F rotated_low = fnma(b, t.sin, mul(a, t.cos));
      const F rotated_high = fma(a, t.sin, mul(b, t.cos));
      if (count == 16) {
        store(low, rotated_low);
        store(high, rotated_high);
      } else {
        store_part(low, rotated_low, count);
        store_part(high, rotated_high, count);
      }
    }
  }
}

template <class X, class B>
void add_row(const void* a, const void* b, void* y, int64_t n) {
  zip_row(static_cast<const X*>(a), static_cast<const B*>(b), static_cast<X*>(y), n,
          [](F u, F v) { return add(u, v); });
}

LOFT_INLINE F sigmoid_times(F x, F argument) {
  return div(x, add(set1(1.0f), exp(sub(zero(), argument))));
}

template <class X>
void silu_mul_row(const void* gate, const void* up, void* y, int64_t n) {
  zip_row(static_cast<const X*>(gate), static_cast<const X*>(up), static_cast<X*>(y), n,
          [](F g, F u) { return mul(sigmoid_times(g, g), u); });
}

/// gelu_tanh(x) = x / 2 * (1 + tanh(a)) = x * sigmoid(2a), a = sqrt(2/pi) (x + 0.044715 x^3): no cancellation.
template <class X>
void gelu_tanh_mul_row(const void* gate, const void* up, void* y, int64_t n) {
  constexpr float kTwiceSqrt2OverPi = 1.59576912160573071f;
  zip_row(static_cast<const X*>(gate), static_cast<const X*>(up), static_cast<X*>(y), n, [](F g, F u) {
    const F cubic = fma(mul(g, g), set1(0.044715f), set1(1.0f));
    return mul(sigmoid_times(g, mul(mul(g, set1(kTwiceSqrt2OverPi)), cubic)), u);
  });
}

template <class X>
void softcap_row(const void* x, float cap, void* y, int64_t n) {
  const F c = set1(cap);
  map_row(static_cast<const X*>(x), static_cast<X*>(y), n, [&](F v) { return mul(c, tanh(div(v, c))); });
}

template <class X, class Y>
void scale_cast_row(const void* x, float scale, void* y, int64_t n) {
  const F s = set1(scale);
  map_row(static_cast<const X*>(x), static_cast<Y*>(y), n, [&](F v) { return mul(v, s); });
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
