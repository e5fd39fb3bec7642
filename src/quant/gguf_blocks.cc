// quant: decoders of GGUF blocks and their re-packing. Each decoder follows the order of f32 operations of ggml's
// reference, so that values are equal bit for bit (tests/python/gguf_compare.py).
#include "quant/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace loft {
namespace {

constexpr int kGroup = 32;
constexpr float kMaxF16 = 65504.0f;

uint16_t load_u16(const uint8_t* p) {
  return uint16_t(p[0] | p[1] << 8);
}
uint32_t load_u32(const uint8_t* p) {
  return uint32_t(load_u16(p)) | uint32_t(load_u16(p + 2)) << 16;
}
float load_f16(const uint8_t* p) {
  return f16_to_f32(load_u16(p));
}
void store_u16(uint16_t v, uint8_t* p) {
  p[0] = uint8_t(v);
  p[1] = uint8_t(v >> 8);
}

// Q4_0 .. Q5_1 and MXFP4: byte j holds value j in its low nibble, value j + 16 in its high one.
void nibbles_of_32(const uint8_t* qs, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = qs[j] & 15;
    codes[j + 16] = qs[j] >> 4;
  }
}

// Q5_0 and Q5_1: bit j of the word belongs to value j.
void fifth_bits_of_32(const uint8_t* qh, uint8_t* codes) {
  const uint32_t bits = load_u32(qh);
  for (int j = 0; j < kGroup; ++j) codes[j] = uint8_t(codes[j] | ((bits >> j) & 1u) << 4);
}

void take_apart_q4_0(const uint8_t* b, GgufGroups& g) {
  g.scale[0] = load_f16(b);
  g.bias[0] = -8.0f * g.scale[0];
  nibbles_of_32(b + 2, g.codes);
}

void take_apart_q4_1(const uint8_t* b, GgufGroups& g) {
  g.scale[0] = load_f16(b);
  g.bias[0] = load_f16(b + 2);
  nibbles_of_32(b + 4, g.codes);
}

void take_apart_q5_0(const uint8_t* b, GgufGroups& g) {
  g.scale[0] = load_f16(b);
  g.bias[0] = -16.0f * g.scale[0];
  nibbles_of_32(b + 6, g.codes);
  fifth_bits_of_32(b + 2, g.codes);
}

void take_apart_q5_1(const uint8_t* b, GgufGroups& g) {
  g.scale[0] = load_f16(b);
  g.bias[0] = load_f16(b + 2);
  nibbles_of_32(b + 8, g.codes);
  fifth_bits_of_32(b + 4, g.codes);
}

void take_apart_q8_0(const uint8_t* b, GgufGroups& g) {
  g.scale[0] = load_f16(b);
  g.bias[0] = -128.0f * g.scale[0];
  for (int j = 0; j < kGroup; ++j) g.codes[j] = b[2 + j] ^ 0x80;
}

// Q4_K and Q5_K: 8 scales and 8 minima of 6 bits each in 12 bytes; the last four of both keep their top bits elsewhere.
void k_scales(const uint8_t* b, const uint8_t* s, GgufGroups& g) {
  const float d = load_f16(b);
  const float dmin = load_f16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
    g.scale[j] = d * float(scale);
    g.bias[j] = -(dmin * float(minimum));
  }
}

// Four runs of 64 values, 32 bytes each: low nibbles are the first group of the run, high nibbles the second.
void k_nibbles(const uint8_t* qs, uint8_t* codes) {
  for (int run = 0; run < 4; ++run) {
    for (int l = 0; l < 32; ++l) {
      codes[run * 64 + l] = qs[run * 32 + l] & 15;
      codes[run * 64 + 32 + l] = qs[run * 32 + l] >> 4;
    }
  }
}

void take_apart_q4_k(const uint8_t* b, GgufGroups& g) {
  k_scales(b, b + 4, g);
  k_nibbles(b + 16, g.codes);
}

void take_apart_q5_k(const uint8_t* b, GgufGroups& g) {
  k_scales(b, b + 4, g);
  k_nibbles(b + 48, g.codes);
  const uint8_t* qh = b + 16;
  for (int i = 0; i < 256; ++i) g.codes[i] = uint8_t(g.codes[i] | ((qh[i % 32] >> (i / 32)) & 1) << 4);
}

// The value of a type with offset o is d * (q - o) in ggml; scale * q + bias is the same number, since both are exact.
template <void (*take_apart)(const uint8_t*, GgufGroups&), int kOffset>
void decode_symmetric(const uint8_t* b, float* out) {
  GgufGroups g;
  take_apart(b, g);
  for (int j = 0; j < kGroup; ++j) out[j] = g.scale[0] * float(g.codes[j] - kOffset);
}

template <void (*take_apart)(const uint8_t*, GgufGroups&), int kValues>
void decode_affine(const uint8_t* b, float* out) {
  GgufGroups g;
  take_apart(b, g);
  for (int i = 0; i < kValues; ++i) out[i] = g.scale[i / kGroup] * float(g.codes[i]) + g.bias[i / kGroup];
}

// Q2_K, Q3_K: 2-bit codes; value 128h + 32s + l lies in byte 32h + l at bit 2s.
int two_bits(const uint8_t* qs, int i) {
  return qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

void decode_q2_k(const uint8_t* b, float* out) {
  const float d = load_f16(b + 80);
  const float dmin = load_f16(b + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * float(b[i / 16] & 15);
    const float minimum = dmin * float(b[i / 16] >> 4);
    out[i] = scale * float(two_bits(b + 16, i)) - minimum;
  }
}

void decode_q3_k(const uint8_t* b, float* out) {
  const uint8_t* high = b;  // bit i / 32 of byte i % 32; a set bit means that 4 is not taken away
  const uint8_t* s = b + 96;
  const float d = load_f16(b + 108);
  float scale[16];
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    const int top = s[8 + j % 4] >> (j / 4 * 2) & 3;
    scale[j] = d * float((low | top << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int code = two_bits(b + 32, i) - ((high[i % 32] >> (i / 32) & 1) ? 0 : 4);
    out[i] = scale[i / 16] * float(code);
  }
}

void decode_q6_k(const uint8_t* b, float* out) {
  const uint8_t* ql = b;
  const uint8_t* qh = b + 128;
  const uint8_t* sc = b + 192;
  const float d = load_f16(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int r = i % 128;
    const int low = ql[half * 64 + r % 64] >> (r / 64 * 4) & 15;
    const int top = qh[half * 32 + r % 32] >> (r / 32 * 2) & 3;
    const float scale = d * float(int8_t(sc[i / 16]));
    out[i] = scale * float((low | top << 4) - 32);
  }
}

void decode_mxfp4(const uint8_t* b, float* out) {
  constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  uint8_t codes[32];
  nibbles_of_32(b + 1, codes);
  // Half of 2^(e - 127), since the table holds doubled values; e = 0 and 1 give f32 subnormals.
  const float half = std::bit_cast<float>(b[0] < 2 ? 0x00200000u << b[0] : uint32_t(b[0] - 1) << 23);
  for (int j = 0; j < 32; ++j) out[j] = half * kDoubled[codes[j]];
}

void decode_f32(const uint8_t* b, float* out) {
  *out = std::bit_cast<float>(load_u32(b));
}
void decode_f16(const uint8_t* b, float* out) {
  *out = load_f16(b);
}
void decode_bf16(const uint8_t* b, float* out) {
  *out = bf16_to_f32(load_u16(b));
}

constexpr QuantFormat kNone{QuantKind::Dense, 0, 0};
constexpr QuantFormat dense(int bits) {
  return {QuantKind::Dense, bits, 0};
}
constexpr QuantFormat affine(int bits) {
  return {QuantKind::Affine, bits, kGroup};
}
constexpr QuantFormat kMxfp4{QuantKind::Mxfp4, 4, 32};
using T = GgufTarget;

constexpr GgufBlockType kTypes[] = {
    {0, "F32", 1, 4, T::Dense, dense(32), decode_f32, nullptr},
    {1, "F16", 1, 2, T::Dense, dense(16), decode_f16, nullptr},
    {30, "BF16", 1, 2, T::Dense, dense(16), decode_bf16, nullptr},
    {2, "Q4_0", 32, 18, T::Affine, affine(4), decode_symmetric<take_apart_q4_0, 8>, take_apart_q4_0},
    {3, "Q4_1", 32, 20, T::Affine, affine(4), decode_affine<take_apart_q4_1, 32>, take_apart_q4_1},
    {6, "Q5_0", 32, 22, T::Affine, affine(5), decode_symmetric<take_apart_q5_0, 16>, take_apart_q5_0},
    {7, "Q5_1", 32, 24, T::Affine, affine(5), decode_affine<take_apart_q5_1, 32>, take_apart_q5_1},
    {8, "Q8_0", 32, 34, T::Affine, affine(8), decode_symmetric<take_apart_q8_0, 128>, take_apart_q8_0},
    {10, "Q2_K", 256, 84, T::Requantize, affine(8), decode_q2_k, nullptr},
    {11, "Q3_K", 256, 110, T::Requantize, affine(8), decode_q3_k, nullptr},
    {12, "Q4_K", 256, 144, T::Affine, affine(4), decode_affine<take_apart_q4_k, 256>, take_apart_q4_k},
    {13, "Q5_K", 256, 176, T::Affine, affine(5), decode_affine<take_apart_q5_k, 256>, take_apart_q5_k},
    {14, "Q6_K", 256, 210, T::Requantize, affine(8), decode_q6_k, nullptr},
    {39, "MXFP4", 32, 17, T::Mxfp4, kMxfp4, decode_mxfp4, nullptr},
    {9, "Q8_1", 32, 40, T::Refuse, kNone, nullptr, nullptr},
    {15, "Q8_K", 256, 292, T::Refuse, kNone, nullptr, nullptr},
    {16, "IQ2_XXS", 256, 66, T::Refuse, kNone, nullptr, nullptr},
    {17, "IQ2_XS", 256, 74, T::Refuse, kNone, nullptr, nullptr},
    {18, "IQ3_XXS", 256, 98, T::Refuse, kNone, nullptr, nullptr},
    {19, "IQ1_S", 256, 50, T::Refuse, kNone, nullptr, nullptr},
    {20, "IQ4_NL", 32, 18, T::Refuse, kNone, nullptr, nullptr},
    {21, "IQ3_S", 256, 110, T::Refuse, kNone, nullptr, nullptr},
    {22, "IQ2_S", 256, 82, T::Refuse, kNone, nullptr, nullptr},
    {23, "IQ4_XS", 256, 136, T::Refuse, kNone, nullptr, nullptr},
    {24, "I8", 1, 1, T::Refuse, kNone, nullptr, nullptr},
    {25, "I16", 1, 2, T::Refuse, kNone, nullptr, nullptr},
    {26, "I32", 1, 4, T::Refuse, kNone, nullptr, nullptr},
    {27, "I64", 1, 8, T::Refuse, kNone, nullptr, nullptr},
    {28, "F64", 1, 8, T::Refuse, kNone, nullptr, nullptr},
    {29, "IQ1_M", 256, 56, T::Refuse, kNone, nullptr, nullptr},
    {34, "TQ1_0", 256, 54, T::Refuse, kNone, nullptr, nullptr},
    {35, "TQ2_0", 256, 66, T::Refuse, kNone, nullptr, nullptr},
    {40, "NVFP4", 64, 36, T::Refuse, kNone, nullptr, nullptr},
    {41, "Q1_0", 128, 18, T::Refuse, kNone, nullptr, nullptr},
};

float round_to(float v, DType dtype) {
  return dtype == DType::F16 ? f16_to_f32(f32_to_f16(v)) : v;
}

// The f16 (or f32) number next to v that is not above it, or not below it.
float round_down(float v, DType dtype) {
  const float r = round_to(v, dtype);
  if (r <= v || dtype != DType::F16) return r;
  const uint16_t bits = f32_to_f16(r);
  if ((bits & 0x7fffu) == 0) return f16_to_f32(0x8001);
  return f16_to_f32(uint16_t(bits & 0x8000u ? bits + 1 : bits - 1));
}
float round_up(float v, DType dtype) {
  return -round_down(-v, dtype);
}

// New 8-bit codes for 32 values. Bias and scale are rounded first, outwards, and the codes chosen for the rounded ones:
// no value falls outside, and none is off by more than half a step.
void requantize_group(const float* values, DType dtype, uint8_t* codes, float& scale, float& bias) {
  const auto [lo, hi] = std::minmax_element(values, values + kGroup);
  bias = round_down(*lo, dtype);
  scale = round_up((*hi - bias) / 255.0f, dtype);
  for (int j = 0; j < kGroup; ++j) {
    const float q = scale > 0 ? (values[j] - bias) / scale : 0.0f;
    codes[j] = uint8_t(std::clamp(std::nearbyint(q), 0.0f, 255.0f));
  }
}

void store_scale(float v, DType dtype, int64_t i, uint8_t* out) {
  if (dtype == DType::F16) {
    store_u16(f32_to_f16(v), out + 2 * i);
  } else {
    std::memcpy(out + 4 * i, &v, 4);
  }
}

void widen_error(const float* wanted, const uint8_t* codes, float scale, float bias, RepackError& error) {
  float largest = 0;
  float off = 0;
  for (int j = 0; j < kGroup; ++j) {
    largest = std::max(largest, std::fabs(wanted[j]));
    off = std::max(off, std::fabs(scale * float(codes[j]) + bias - wanted[j]));
  }
  error.absolute = std::max(error.absolute, double(off));
  if (largest > 0) error.relative = std::max(error.relative, double(off) / double(largest));
}

RepackError repack_mxfp4(const uint8_t* blocks, int64_t n_values, const RepackOut& out) {
  for (int64_t i = 0; i < n_values / 32; ++i) {
    uint8_t codes[32];
    nibbles_of_32(blocks + i * 17 + 1, codes);
    out.scales[i] = blocks[i * 17];
    pack_codes(codes, 32, 4, out.words + i * 16);
  }
  return {};
}

bool all_finite(const float* v, int n) {
  return std::all_of(v, v + n, [](float x) { return std::isfinite(x); });
}

}  // namespace

std::span<const GgufBlockType> gguf_block_types() {
  return kTypes;
}

const GgufBlockType* find_gguf_block_type(uint32_t id) {
  const auto it = std::ranges::find(kTypes, id, &GgufBlockType::id);
  return it == std::end(kTypes) ? nullptr : it;
}

const GgufBlockType* find_gguf_block_type(std::string_view name) {
  const auto it = std::ranges::find_if(kTypes, [&](const GgufBlockType& t) { return name == t.name; });
  return it == std::end(kTypes) ? nullptr : it;
}

void decode_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values, float* out) {
  LOFT_CHECK(type.decode && n_values % type.values == 0);
  for (int64_t i = 0; i < n_values / type.values; ++i) type.decode(blocks + i * type.bytes, out + i * type.values);
}

void pack_codes(const uint8_t* codes, int64_t n, int bits, uint8_t* out) {
  LOFT_CHECK(n % 8 == 0);
  for (int64_t i = 0; i < n; i += 8) {  // 8 codes fill `bits` whole bytes
    uint64_t stream = 0;
    for (int j = 0; j < 8; ++j) stream |= uint64_t(codes[i + j]) << (j * bits);
    for (int j = 0; j < bits; ++j) *out++ = uint8_t(stream >> (8 * j));
  }
}

RepackError repack_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values, const RepackOut& out) {
  LOFT_CHECK(n_values % type.values == 0);
  if (type.target == GgufTarget::Mxfp4) return repack_mxfp4(blocks, n_values, out);
  LOFT_CHECK(type.target == GgufTarget::Affine || type.target == GgufTarget::Requantize);
  RepackError error;
  GgufGroups g;
  float wanted[256];
  int64_t i_group = 0;
  for (int64_t i = 0; i < n_values / type.values; ++i) {
    const uint8_t* block = blocks + i * type.bytes;
    type.decode(block, wanted);
    if (type.take_apart) type.take_apart(block, g);
    for (int j = 0; j < type.values / kGroup; ++j, ++i_group) {
      uint8_t* codes = g.codes + j * kGroup;
      if (type.take_apart) {
        g.scale[j] = round_to(g.scale[j], out.scale_dtype);
        g.bias[j] = round_to(g.bias[j], out.scale_dtype);
      } else {
        requantize_group(wanted + j * kGroup, out.scale_dtype, codes, g.scale[j], g.bias[j]);
      }
      widen_error(wanted + j * kGroup, codes, g.scale[j], g.bias[j], error);
      store_scale(g.scale[j], out.scale_dtype, i_group, out.scales);
      store_scale(g.bias[j], out.scale_dtype, i_group, out.biases);
      pack_codes(codes, kGroup, type.format.bits, out.words + i_group * kGroup * type.format.bits / 8);
    }
  }
  return error;
}

GgufScan scan_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values) {
  GgufScan scan;
  GgufGroups g;
  float values[256];
  const int n_groups = std::max(1, type.values / kGroup);
  for (int64_t i = 0; i < n_values / type.values; ++i) {
    const uint8_t* block = blocks + i * type.bytes;
    type.decode(block, values);
    bool finite = all_finite(values, type.values) && !(type.target == GgufTarget::Mxfp4 && block[0] == 255);
    if (type.take_apart) {
      type.take_apart(block, g);
      finite = finite && all_finite(g.scale, n_groups) && all_finite(g.bias, n_groups);
      for (int j = 0; j < n_groups; ++j) {
        for (const float v : {g.scale[j], g.bias[j]}) {
          scan.fits_f16 = scan.fits_f16 && std::fabs(v) <= kMaxF16;
          scan.exact_f16 = scan.exact_f16 && round_to(v, DType::F16) == v;
        }
      }
    } else if (type.target == GgufTarget::Requantize || type.target == GgufTarget::Dense) {
      for (int j = 0; j < type.values; ++j) {
        scan.fits_f16 = scan.fits_f16 && std::fabs(values[j]) <= kMaxF16;
        scan.exact_f16 = scan.exact_f16 && round_to(values[j], DType::F16) == values[j];
      }
    }
    if (!finite && !scan.not_finite) scan.not_finite = i * type.values;
  }
  return scan;
}

}  // namespace loft
