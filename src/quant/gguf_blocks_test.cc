#include "quant/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace loft {
namespace {

const GgufBlockType& type_of(std::string_view name) {
  const GgufBlockType* type = find_gguf_block_type(name);
  EXPECT_NE(type, nullptr) << name;
  return *type;
}

void put_f16(std::vector<uint8_t>& block, size_t at, float v) {
  const uint16_t bits = f32_to_f16(v);
  std::memcpy(block.data() + at, &bits, 2);
}

// The worked vector: nibbles 0..15 in the first half, 15..0 in the second.
constexpr uint8_t kNibbles[16] = {0xf0, 0xe1, 0xd2, 0xc3, 0xb4, 0xa5, 0x96, 0x87,
                                  0x78, 0x69, 0x5a, 0x4b, 0x3c, 0x2d, 0x1e, 0x0f};

std::vector<uint8_t> random_blocks(const GgufBlockType& type, int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> blocks(size_t(n * type.bytes));
  for (uint8_t& b : blocks) b = uint8_t(random());
  return blocks;
}

struct Repacked {
  std::vector<uint8_t> words, scales, biases;
  RepackError error;
};

Repacked repack(const GgufBlockType& type, const std::vector<uint8_t>& blocks, DType scale_dtype) {
  const int64_t n = int64_t(blocks.size()) / type.bytes * type.values;
  Repacked r;
  r.words.resize(size_t(n * type.format.bits / 8));
  r.scales.resize(size_t(n / 32 * 4));
  r.biases.resize(r.scales.size());
  r.error = repack_gguf(
      type, blocks.data(), n,
      {.words = r.words.data(), .scales = r.scales.data(), .biases = r.biases.data(), .scale_dtype = scale_dtype});
  return r;
}

TEST(GgufBlocks, Q4NibblesComeOutInMlxOrder) {
  std::vector<uint8_t> block(20);
  put_f16(block, 0, 0.5f);
  put_f16(block, 2, -3.0f);
  std::memcpy(block.data() + 4, kNibbles, 16);
  const Repacked r = repack(type_of("Q4_1"), block, DType::F16);
  uint32_t words[4];
  std::memcpy(words, r.words.data(), 16);
  EXPECT_EQ(words[0], 0x76543210u);
  EXPECT_EQ(words[1], 0xfedcba98u);
  EXPECT_EQ(words[2], 0x89abcdefu);
  EXPECT_EQ(words[3], 0x01234567u);
  uint16_t scale = 0;
  uint16_t bias = 0;
  std::memcpy(&scale, r.scales.data(), 2);
  std::memcpy(&bias, r.biases.data(), 2);
  EXPECT_EQ(f16_to_f32(scale), 0.5f);
  EXPECT_EQ(f16_to_f32(bias), -3.0f);
  EXPECT_EQ(r.error.absolute, 0);
}

TEST(GgufBlocks, TheFifthBitOfValueJIsBitJ) {
  std::vector<uint8_t> block(22);
  put_f16(block, 0, 1.0f);
  block[2] = 0x01;  // value 0
  block[5] = 0x80;  // value 31
  float out[32];
  decode_gguf(type_of("Q5_0"), block.data(), 32, out);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], -16.0f);
  EXPECT_EQ(out[31], 0.0f);
}

TEST(GgufBlocks, Q8CodesAreTheSignedBytesWithTheTopBitTurned) {
  std::vector<uint8_t> block(34);
  put_f16(block, 0, 2.0f);
  block[2] = 0x80;  // -128
  block[3] = 0x7f;  // 127
  float out[32];
  decode_gguf(type_of("Q8_0"), block.data(), 32, out);
  EXPECT_EQ(out[0], -256.0f);
  EXPECT_EQ(out[1], 254.0f);
  const Repacked r = repack(type_of("Q8_0"), block, DType::F16);
  EXPECT_EQ(r.words[0], 0);
  EXPECT_EQ(r.words[1], 255);
  EXPECT_EQ(r.words[2], 128);
}

TEST(GgufBlocks, Mxfp4KeepsItsScaleByte) {
  std::vector<uint8_t> block(17);
  block[0] = 128;  // 2^1
  std::memcpy(block.data() + 1, kNibbles, 16);
  float out[32];
  decode_gguf(type_of("MXFP4"), block.data(), 32, out);
  EXPECT_EQ(out[1], 1.0f);
  EXPECT_EQ(out[7], 12.0f);
  EXPECT_EQ(out[15], -12.0f);
  const Repacked r = repack(type_of("MXFP4"), block, DType::U8);
  EXPECT_EQ(r.scales[0], 128);
  EXPECT_EQ(r.words[0], 0x10);
}

TEST(GgufBlocks, EveryAffineTypeIsExactWithF32Scales) {
  for (const GgufBlockType& type : gguf_block_types()) {
    if (type.target != GgufTarget::Affine) continue;
    std::vector<uint8_t> blocks = random_blocks(type, 50, 7);
    for (int i = 0; i < 50; ++i) {  // finite halves where the scales lie
      put_f16(blocks, size_t(i * type.bytes), 0.001f * float(i - 20));
      if (std::string_view(type.name).ends_with("_1") || std::string_view(type.name).ends_with("_K")) {
        put_f16(blocks, size_t(i * type.bytes + 2), 0.5f - 0.01f * float(i));
      }
    }
    EXPECT_EQ(repack(type, blocks, DType::F32).error.absolute, 0) << type.name;
  }
}

TEST(GgufBlocks, RoundedScalesOfKTypesAreReportedWithTheirError) {
  std::vector<uint8_t> blocks = random_blocks(type_of("Q4_K"), 20, 9);
  for (int i = 0; i < 20; ++i) {
    put_f16(blocks, size_t(i * 144), 0.0123f);
    put_f16(blocks, size_t(i * 144 + 2), 0.0456f);
  }
  const Repacked r = repack(type_of("Q4_K"), blocks, DType::F16);
  EXPECT_GT(r.error.absolute, 0);
  EXPECT_LT(r.error.relative, 2e-3);
}

// Seen to fail with the outward rounding of scale and bias taken out: the ends of a group were cut off.
TEST(GgufBlocks, RequantizedValuesAreWithinHalfAStep) {
  for (const char* name : {"Q2_K", "Q3_K", "Q6_K"}) {
    const GgufBlockType& type = type_of(name);
    std::vector<uint8_t> blocks = random_blocks(type, 40, 11);
    for (int i = 0; i < 40; ++i) {
      // The small ones give scales among the subnormals of f16, where rounding moves a scale by whole per cents.
      const float magnitude = i % 2 == 0 ? 1e-3f : 1e-6f;
      const size_t at = size_t(i * type.bytes);
      if (type.bytes == 84) put_f16(blocks, at + 80, magnitude * float(i));
      put_f16(blocks, at + size_t(type.bytes) - 2, magnitude * float(i));
    }
    const Repacked r = repack(type, blocks, DType::F16);
    std::vector<float> wanted(size_t(40 * 256));
    decode_gguf(type, blocks.data(), int64_t(wanted.size()), wanted.data());
    for (size_t g = 0; g < wanted.size() / 32; ++g) {
      uint16_t half[2];
      std::memcpy(&half[0], r.scales.data() + 2 * g, 2);
      std::memcpy(&half[1], r.biases.data() + 2 * g, 2);
      const float scale = f16_to_f32(half[0]);
      for (size_t j = 0; j < 32; ++j) {
        const float found = scale * float(r.words[g * 32 + j]) + f16_to_f32(half[1]);
        ASSERT_LE(std::fabs(found - wanted[g * 32 + j]), 0.501f * scale + 1e-12f)
            << name << " group " << g << " value " << j;
      }
    }
  }
}

TEST(GgufBlocks, TheScanFindsWhatF16CannotHold) {
  std::vector<uint8_t> block(34);
  put_f16(block, 0, 511.5f);
  EXPECT_TRUE(scan_gguf(type_of("Q8_0"), block.data(), 32).exact_f16);
  put_f16(block, 0, 512.0f);  // -128 * 512 is beyond 65504
  const GgufScan scan = scan_gguf(type_of("Q8_0"), block.data(), 32);
  EXPECT_FALSE(scan.fits_f16);
  EXPECT_FALSE(scan.not_finite.has_value());
  put_f16(block, 0, INFINITY);
  EXPECT_EQ(scan_gguf(type_of("Q8_0"), block.data(), 32).not_finite, 0);
}

TEST(GgufBlocks, CodesOfEveryWidthFormOneLittleEndianStream) {
  const uint8_t codes[] = {0, 1, 2, 3, 28, 29, 30, 31};
  const uint8_t five_bits[] = {0x20, 0x88, 0xc1, 0xbb, 0xff};
  uint8_t out[8] = {};
  pack_codes(codes, 8, 5, out);
  EXPECT_EQ(std::memcmp(out, five_bits, 5), 0);
  const uint8_t small[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const uint8_t three_bits[] = {0x88, 0xc6, 0xfa};
  pack_codes(small, 8, 3, out);
  EXPECT_EQ(std::memcmp(out, three_bits, 3), 0);
}

TEST(GgufBlocks, IdsAndNamesAreUnique) {
  for (const GgufBlockType& type : gguf_block_types()) {
    EXPECT_EQ(find_gguf_block_type(type.id), &type) << type.name;
    EXPECT_EQ(find_gguf_block_type(std::string_view(type.name)), &type);
  }
  EXPECT_EQ(find_gguf_block_type(uint32_t(4)), nullptr);
}

}  // namespace
}  // namespace loft
