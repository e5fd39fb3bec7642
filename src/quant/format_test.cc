// quant: the table of formats, packing vectors, decoding of every format from unaligned memory.
#include "quant/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "core/error.h"
#include "core/options.h"
#include "quant/affine.h"
#include "quant/mxfp.h"
#include "quant/reference.h"

namespace loft {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes pack(const Bytes& codes, int bits) {
  Bytes out(codes.size() * size_t(bits) / 8);
  pack_codes(codes.data(), bits, int64_t(codes.size()), out.data());
  return out;
}

Bytes bytes_of_words(std::initializer_list<uint32_t> words) {
  Bytes out;
  for (uint32_t word : words) {
    for (int i = 0; i < 4; ++i) out.push_back(uint8_t(word >> (8 * i)));
  }
  return out;
}

Bytes ramp(int count, int step, int modulus) {
  Bytes out;
  for (int i = 0; i < count; ++i) out.push_back(uint8_t(i * step % modulus));
  return out;
}

TEST(Format, NamesGoBothWays) {
  int n_valid = 0;
  for (const FormatRow& row : format_rows()) {
    for (int bits = 0; bits <= 33; ++bits) {
      for (int group : {0, 16, 32, 64, 128, 256}) {
        const QuantFormat format{.kind = row.kind, .bits = bits, .group = group};
        if (!is_valid(format)) continue;
        ++n_valid;
        EXPECT_EQ(format_from_name(format_name(format)), format) << format_name(format);
      }
    }
  }
  EXPECT_EQ(n_valid, 2 + 6 * 3 + 3);
  EXPECT_EQ(format_from_name("affine4"), (QuantFormat{.kind = QuantKind::Affine, .bits = 4, .group = 64}));
  EXPECT_EQ(format_from_name("nvfp4"), (QuantFormat{.kind = QuantKind::Nvfp4, .bits = 4, .group = 16}));
  for (const char* bad :
       {"", "affine7", "affine4g48", "affine4x", "affineg64", "affine4g", "mxfp4g16", "mxfp5", "q4_0"}) {
    EXPECT_EQ(format_from_name(bad), std::nullopt) << bad;
  }
}

TEST(Format, MessagesAndOptionsNameTheModesOfTheTable) {
  EXPECT_EQ(quant_mode_names(), "affine, mxfp4, mxfp8, nvfp4");
  EXPECT_EQ(quant_mode_choices(), "affine with 2, 3, 4, 5, 6 or 8 bits and group 32, 64 or 128, mxfp4, mxfp8, nvfp4");
  EXPECT_EQ(parse_format("--format", "affine8"), (QuantFormat{.kind = QuantKind::Affine, .bits = 8, .group = 64}));
  try {
    parse_format("--format", "q4_0");
    FAIL() << "wanted an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    EXPECT_STREQ(e.what(), "--format: found 'q4_0', wanted one as affine4g64, mxfp4, mxfp8, nvfp4");
  }
  // The words of --mode stand in a table that knows no formats.
  const auto rows = option_rows();
  const auto mode = std::find_if(rows.begin(), rows.end(), [](const OptionRow& row) { return row.flag == "--mode"; });
  ASSERT_NE(mode, rows.end());
  std::string words = "dense";
  for (const FormatRow& row : format_rows()) {
    Options options;
    EXPECT_TRUE(mode->set(options, row.name)) << row.name;
    if (row.kind != QuantKind::Dense) words += std::string("|") + row.name;
  }
  EXPECT_EQ(std::string("one of ").size() + words.size(), mode->wanted.size()) << mode->wanted;
}

TEST(Format, SevenBitsAreRefused) {
  EXPECT_FALSE(is_valid({.kind = QuantKind::Affine, .bits = 7, .group = 64}));
  EXPECT_TRUE(is_valid({.kind = QuantKind::Affine, .bits = 8, .group = 64}));
}

TEST(Format, ModeWordsAreThoseOfMlx) {
  EXPECT_EQ(quant_kind_from_mode("affine"), QuantKind::Affine);
  EXPECT_EQ(quant_kind_from_mode("mxfp8"), QuantKind::Mxfp8);
  EXPECT_EQ(quant_kind_from_mode("dense"), std::nullopt);
  EXPECT_EQ(quant_kind_from_mode("AFFINE"), std::nullopt);
}

TEST(Format, CodesArePackedAsMlxPacksThem) {
  EXPECT_EQ(pack(ramp(16, 1, 4), 2), bytes_of_words({0xe4e4e4e4}));
  EXPECT_EQ(pack(ramp(32, 1, 8), 3), bytes_of_words({0x88fac688, 0xc688fac6, 0xfac688fa}));
  EXPECT_EQ(pack(ramp(8, 1, 8), 4), bytes_of_words({0x76543210}));
  EXPECT_EQ(pack({0, 1, 2, 3, 28, 29, 30, 31}, 5), (Bytes{0x20, 0x88, 0xc1, 0xbb, 0xff}));
  EXPECT_EQ(pack(ramp(32, 7, 32), 5), bytes_of_words({0x87cab8e0, 0x469bf88a, 0xfaf048b7, 0xe80ea6c2, 0xcc964ed9}));
  EXPECT_EQ(pack({1, 2, 62, 63, 1, 2, 62, 63}, 6), (Bytes{0x81, 0xe0, 0xff, 0x81, 0xe0, 0xff}));
  EXPECT_EQ(pack(ramp(16, 5, 64), 6), bytes_of_words({0x543ca140, 0x2b688de6, 0x2c607cdf}));
  EXPECT_EQ(pack({1, 2, 3, 255, 0, 0, 0, 0}, 8), bytes_of_words({0xff030201, 0}));
}

TEST(Format, UnpackingInvertsPackingAtEveryWidthAndStart) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits) {
    Bytes codes(256);
    for (uint8_t& c : codes) c = uint8_t(random() & ((1u << bits) - 1u));
    const Bytes packed = pack(codes, bits);
    for (int64_t first = 0; first < 256; first += 8) {
      Bytes out(size_t(256 - first));
      unpack_codes(packed.data(), bits, first, 256 - first, out.data());
      EXPECT_EQ(out, Bytes(codes.begin() + first, codes.end())) << bits << " bits from " << first;
    }
  }
}

TEST(Format, AffineDecodesFromAnyAlignmentWithEveryScaleType) {
  std::mt19937 random(2);
  for (DType scale_dtype : {DType::F32, DType::F16, DType::BF16}) {
    for (int bits : {2, 3, 4, 5, 6, 8}) {
      QuantWeight w{.format = {.kind = QuantKind::Affine, .bits = bits, .group = 32}, .n = 3, .k = 96};
      w.scale_dtype = scale_dtype;
      Bytes codes(3 * 96);
      for (uint8_t& c : codes) c = uint8_t(random() & ((1u << bits) - 1u));
      Bytes memory(1 + codes.size());
      pack_codes(codes.data(), bits, 3 * 96, memory.data() + 1);
      const size_t width = dtype_bytes(scale_dtype);
      Bytes scales(1 + 9 * width), biases(1 + 9 * width);
      for (size_t i = 0; i < 9; ++i) {
        const float scale = 0.25f - float(i) * 0.125f, bias = float(i) - 3.5f;  // exact in all three types
        const uint32_t s32 = std::bit_cast<uint32_t>(scale), b32 = std::bit_cast<uint32_t>(bias);
        const uint16_t s16 = scale_dtype == DType::F16 ? f32_to_f16(scale) : f32_to_bf16(scale);
        const uint16_t b16 = scale_dtype == DType::F16 ? f32_to_f16(bias) : f32_to_bf16(bias);
        std::memcpy(scales.data() + 1 + i * width, width == 4 ? static_cast<const void*>(&s32) : &s16, width);
        std::memcpy(biases.data() + 1 + i * width, width == 4 ? static_cast<const void*>(&b32) : &b16, width);
      }
      w.words = memory.data() + 1;
      w.scales = scales.data() + 1;
      w.biases = biases.data() + 1;
      const std::vector<float> decoded = reference_dequantize(w);
      for (size_t i = 0; i < decoded.size(); ++i) {
        const size_t group = i / 32;
        EXPECT_EQ(decoded[i], float(codes[i]) * (0.25f - float(group) * 0.125f) + (float(group) - 3.5f));
      }
      std::vector<float> middle(32);
      dequantize_run(slice_rows(w, 1, 3), 1, 32, 32, middle.data());
      EXPECT_EQ(middle, std::vector<float>(decoded.begin() + 2 * 96 + 32, decoded.begin() + 2 * 96 + 64));
    }
  }
}

TEST(Format, TheSmallestE8m0ScaleIsASubnormal) {
  EXPECT_EQ(e8m0_to_f32(0), std::ldexp(1.0f, -127));
  EXPECT_EQ(e8m0_to_f32(1), std::ldexp(1.0f, -126));
  EXPECT_EQ(e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(e8m0_to_f32(254), std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isinf(e8m0_to_f32(255)));
}

TEST(Format, E4m3HasNoInfinityAndTwoNans) {
  for (int code = 0; code < 128; ++code) {
    const float low = e4m3_to_f32(uint8_t(code)), high = e4m3_to_f32(uint8_t(code + 128));
    if (code == 0x7f) {
      EXPECT_TRUE(std::isnan(low) && std::isnan(high));
      continue;
    }
    const int exponent = code >> 3, mantissa = code & 7;
    const double wanted = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
    EXPECT_EQ(double(low), wanted) << code;
    EXPECT_EQ(high, -low);
    EXPECT_EQ(std::signbit(high), true);
  }
  EXPECT_EQ(e4m3_to_f32(0x7e), 448.0f);
}

TEST(Format, Mxfp4CodesStandLowNibbleFirst) {
  Bytes words = bytes_of_words({0x76543210, 0xfedcba98, 0x76543210, 0xfedcba98});
  const uint8_t scale = 128;
  QuantWeight w{.format = *format_from_name("mxfp4"), .n = 1, .k = 32};
  w.words = words.data();
  w.scales = &scale;
  w.scale_dtype = DType::U8;
  const std::vector<float> decoded = reference_dequantize(w);
  const float wanted[] = {0, 1, 2, 3, 4, 6, 8, 12};
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(decoded[i], i % 16 < 8 ? wanted[i % 8] : -wanted[i % 8]);
}

TEST(Format, Mxfp8AndNvfp4DecodeByTheirTables) {
  Bytes codes = ramp(32, 9, 256);
  const uint8_t e8m0[] = {126};
  QuantWeight w{.format = *format_from_name("mxfp8"), .n = 1, .k = 32};
  w.words = codes.data();
  w.scales = e8m0;
  w.scale_dtype = DType::U8;
  std::vector<float> decoded = reference_dequantize(w);
  for (size_t i = 0; i < 32; ++i) {
    if (codes[i] % 128 == 0x7f) continue;
    EXPECT_EQ(decoded[i], e4m3_to_f32(codes[i]) * 0.5f);
  }
  Bytes pairs = ramp(16, 17, 256);
  const uint8_t e4m3[] = {0x38, 0x40};  // 1 and 2
  w = {.format = *format_from_name("nvfp4"), .n = 1, .k = 32};
  w.words = pairs.data();
  w.scales = e4m3;
  w.scale_dtype = DType::U8;
  w.global_scale = nvfp4_factor(1344.0f);  // one half
  decoded = reference_dequantize(w);
  for (size_t i = 0; i < 32; ++i) {
    const uint8_t code = uint8_t(pairs[i / 2] >> (i % 2 * 4));
    EXPECT_EQ(decoded[i], e2m1_to_f32(code) * (i < 16 ? 0.5f : 1.0f));
  }
}

TEST(Format, DenseIsReadInAllThreeTypesAtOddAddresses) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    QuantWeight w{
        .format = {.kind = QuantKind::Dense, .bits = int(8 * dtype_bytes(dtype)), .group = 0}, .n = 2, .k = 5};
    w.dense_dtype = dtype;
    Bytes memory(1 + 10 * dtype_bytes(dtype));
    for (size_t i = 0; i < 10; ++i) {
      const float value = float(i) - 4.5f;
      const uint16_t half = dtype == DType::F16 ? f32_to_f16(value) : f32_to_bf16(value);
      const void* source = dtype == DType::F32 ? static_cast<const void*>(&value) : &half;
      std::memcpy(memory.data() + 1 + i * dtype_bytes(dtype), source, dtype_bytes(dtype));
    }
    w.words = memory.data() + 1;
    const std::vector<float> decoded = reference_dequantize(w);
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(decoded[i], float(i) - 4.5f);
  }
}

TEST(Format, SizesCountEveryPart) {
  QuantWeight w{.format = *format_from_name("affine3g64"), .n = 4, .k = 128};
  w.scale_dtype = DType::F16;
  EXPECT_EQ(word_row_bytes(w), 48u);
  EXPECT_EQ(scale_row_bytes(w), 4u);
  EXPECT_EQ(weight_bytes(w), 4u * (48 + 4 + 4));
  w.format = *format_from_name("nvfp4");
  w.scale_dtype = DType::U8;
  EXPECT_EQ(weight_bytes(w), 4u * (64 + 8));
  w.format = *format_from_name("dense");
  EXPECT_EQ(weight_bytes(w), 4u * 512);
}

TEST(Reference, MatmulSumsInDouble) {
  const std::vector<float> weights = {1, 2, 3, -4, 5, -6};
  QuantWeight w{.format = *format_from_name("dense"), .n = 2, .k = 3};
  w.words = weights.data();
  const std::vector<float> x = {1, 1, 1, 0.5f, -1, 2};
  EXPECT_EQ(reference_matmul(x, w), (std::vector<double>{6, -5, 4.5, -19}));
  EXPECT_EQ(reference_abs_matmul(x, w), (std::vector<double>{6, 15, 8.5, 19}));
}

}  // namespace
}  // namespace loft
