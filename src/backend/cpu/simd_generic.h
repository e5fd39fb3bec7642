// backend/cpu: sixteen floats as four vectors of the compiler, on any machine. Included by simd.h alone, which says
// what the names mean.
#pragma once

namespace loft::LOFT_SIMD_NAMESPACE {

// Any machine: four vectors of four through the compiler's vector types.
typedef float V4 __attribute__((vector_size(16)));
typedef int32_t I4 __attribute__((vector_size(16)));
struct F {
  V4 v[4];
};
struct I {
  I4 v[4];
};
template <class T, class U, class Op>
LOFT_INLINE T each(const U& a, const U& b, Op op) {
  return {{op(a.v[0], b.v[0]), op(a.v[1], b.v[1]), op(a.v[2], b.v[2]), op(a.v[3], b.v[3])}};
}
LOFT_INLINE F set1(float x) {
  const V4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
LOFT_INLINE F zero() {
  return set1(0.0f);
}
LOFT_INLINE F add(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x + y; });
}
LOFT_INLINE F sub(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x - y; });
}
LOFT_INLINE F mul(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x * y; });
}
LOFT_INLINE F div(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x / y; });
}
LOFT_INLINE F fma(F a, F b, F c) {
  return add(mul(a, b), c);
}
LOFT_INLINE F fnma(F a, F b, F c) {
  return sub(c, mul(a, b));
}
// As x86's: the second operand where either is NaN.
LOFT_INLINE F max(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x > y ? x : y; });
}
LOFT_INLINE F min(F a, F b) {
  return each<F>(a, b, [](V4 x, V4 y) { return x < y ? x : y; });
}
LOFT_INLINE I bits(F a) {
  return {{I4(a.v[0]), I4(a.v[1]), I4(a.v[2]), I4(a.v[3])}};
}
LOFT_INLINE F from_bits(I a) {
  return {{V4(a.v[0]), V4(a.v[1]), V4(a.v[2]), V4(a.v[3])}};
}
LOFT_INLINE I iset1(int32_t x) {
  const I4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
LOFT_INLINE I iadd(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x + y; });
}
LOFT_INLINE I isub(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x - y; });
}
LOFT_INLINE I iand(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x & y; });
}
LOFT_INLINE I ior(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x | y; });
}
LOFT_INLINE I ixor(I a, I b) {
  return each<I>(a, b, [](I4 x, I4 y) { return x ^ y; });
}
template <int N>
LOFT_INLINE I shl(I a) {
  return {{a.v[0] << N, a.v[1] << N, a.v[2] << N, a.v[3] << N}};
}
template <int N>
LOFT_INLINE I sar(I a) {
  return {{a.v[0] >> N, a.v[1] >> N, a.v[2] >> N, a.v[3] >> N}};
}
LOFT_INLINE F load(const float* p) {
  F a;
  std::memcpy(&a, p, sizeof a);
  return a;
}
LOFT_INLINE void store(float* p, F a) {
  std::memcpy(p, &a, sizeof a);
}
LOFT_INLINE F load(const int8_t* p) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = float(p[i]);
  return load(x);
}
LOFT_INLINE F load(const Half* p) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = f16_to_f32(p[i].bits);
  return load(x);
}
LOFT_INLINE void store(Half* p, F a) {
  float x[16];
  store(x, a);
  for (int i = 0; i < 16; ++i) p[i].bits = f32_to_f16(x[i]);
}
LOFT_INLINE F load(const Bf16* p) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = bf16_to_f32(p[i].bits);
  return load(x);
}
LOFT_INLINE void store(Bf16* p, F a) {
  float x[16];
  store(x, a);
  for (int i = 0; i < 16; ++i) p[i].bits = f32_to_bf16(x[i]);
}
/// The tree of every sum: lanes l and l + 8, then l + 4, l + 2, l + 1.
LOFT_INLINE float sum_lanes(F a) {
  const V4 s4 = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}
/// Rows become columns, in place.
LOFT_INLINE void transpose_16(F* r) {
  float x[16][16], y[16][16];
  for (int i = 0; i < 16; ++i) store(x[i], r[i]);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) y[j][i] = x[i][j];
  }
  for (int i = 0; i < 16; ++i) r[i] = load(y[i]);
}

}  // namespace loft::LOFT_SIMD_NAMESPACE
