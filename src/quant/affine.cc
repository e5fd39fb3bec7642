// quant: decoding and packing of MLX's affine format. See affine.h.
#include "quant/affine.h"

#include <cstring>

#include "core/error.h"

namespace loft {
namespace {

// Eight codes fill exactly `bits` bytes whatever the width, so one 64-bit load serves every width.
template <int kBits>
inline uint64_t load_eight(const uint8_t* p) {
  uint64_t stream = 0;
  std::memcpy(&stream, p, kBits);
  return stream;
}

template <int kBits>
inline uint32_t code_of(uint64_t stream, int i) {
  return uint32_t(stream >> (i * kBits)) & ((1u << kBits) - 1u);
}

template <int kBits>
void unpack(const uint8_t* bytes, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; i += 8, bytes += kBits) {
    const uint64_t stream = load_eight<kBits>(bytes);
    for (int j = 0; j < 8; ++j) out[i + j] = uint8_t(code_of<kBits>(stream, j));
  }
}

template <int kBits>
void pack(const uint8_t* codes, int64_t count, uint8_t* bytes) {
  for (int64_t i = 0; i < count; i += 8, bytes += kBits) {
    uint64_t stream = 0;
    for (int j = 0; j < 8; ++j) stream |= uint64_t(codes[i + j]) << (j * kBits);
    std::memcpy(bytes, &stream, kBits);
  }
}

template <int kBits>
void decode_group(const uint8_t* bytes, int64_t count, float scale, float bias, float* out) {
  for (int64_t i = 0; i < count; i += 8, bytes += kBits) {
    const uint64_t stream = load_eight<kBits>(bytes);
    for (int j = 0; j < 8; ++j) {
      const float product = float(code_of<kBits>(stream, j)) * scale;
      out[i + j] = product + bias;
    }
  }
}

using Unpack = void (*)(const uint8_t*, int64_t, uint8_t*);
using Pack = void (*)(const uint8_t*, int64_t, uint8_t*);
using DecodeGroup = void (*)(const uint8_t*, int64_t, float, float, float*);

constexpr Unpack kUnpack[] = {unpack<1>, unpack<2>, unpack<3>, unpack<4>, unpack<5>, unpack<6>, unpack<7>, unpack<8>};
constexpr Pack kPack[] = {pack<1>, pack<2>, pack<3>, pack<4>, pack<5>, pack<6>, pack<7>, pack<8>};
constexpr DecodeGroup kDecodeGroup[] = {decode_group<1>, decode_group<2>, decode_group<3>, decode_group<4>,
                                        decode_group<5>, decode_group<6>, decode_group<7>, decode_group<8>};

}  // namespace

float load_float(const void* array, DType dtype, int64_t index) {
  const auto* bytes = static_cast<const uint8_t*>(array);
  if (dtype == DType::F32) {
    float value = 0;
    std::memcpy(&value, bytes + index * 4, 4);
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, bytes + index * 2, 2);
  return dtype == DType::BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

void store_float(float x, DType dtype, void* array, int64_t index) {
  auto* bytes = static_cast<uint8_t*>(array);
  if (dtype == DType::F32) {
    std::memcpy(bytes + index * 4, &x, 4);
    return;
  }
  const uint16_t half = dtype == DType::BF16 ? f32_to_bf16(x) : f32_to_f16(x);
  std::memcpy(bytes + index * 2, &half, 2);
}

void unpack_codes(const void* row_words, int bits, int64_t first, int64_t count, uint8_t* out) {
  LOFT_CHECK(bits >= 1 && bits <= 8 && first % 8 == 0 && count % 8 == 0);
  kUnpack[bits - 1](static_cast<const uint8_t*>(row_words) + first / 8 * bits, count, out);
}

void pack_codes(const uint8_t* codes, int bits, int64_t count, void* row_words) {
  LOFT_CHECK(bits >= 1 && bits <= 8 && count % 8 == 0);
  kPack[bits - 1](codes, count, static_cast<uint8_t*>(row_words));
}

void dequantize_affine(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out) {
  const int bits = w.format.bits;
  const int group = w.format.group;
  const auto* words = static_cast<const uint8_t*>(w.words) + row * int64_t(word_row_bytes(w)) + first / 8 * bits;
  const int64_t first_group = row * (w.k / group) + first / group;
  for (int64_t g = 0; g < count / group; ++g) {
    const float scale = load_float(w.scales, w.scale_dtype, first_group + g);
    const float bias = load_float(w.biases, w.scale_dtype, first_group + g);
    kDecodeGroup[bits - 1](words + g * (group / 8 * bits), group, scale, bias, out + g * group);
  }
}

}  // namespace loft
