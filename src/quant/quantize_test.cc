// quant: the worked group of docs/format_mlx_affine.md in every format, and the edges of the quantizers.
#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/error.h"
#include "quant/mxfp.h"
#include "quant/reference.h"

namespace loft {
namespace {

// A quantized weight with its memory.
struct Quantized {
  std::vector<uint32_t> words;
  std::vector<uint8_t> scales;
  std::vector<uint8_t> biases;
  QuantWeight view;

  template <class T>
  T scale(size_t i) const {
    T value;
    std::memcpy(&value, scales.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  float bias(size_t i) const {
    float value;
    std::memcpy(&value, biases.data() + i * 4, 4);
    return value;
  }
};

Quantized quantize(const std::vector<float>& weights, int64_t n, const QuantFormat& format) {
  QuantWeight dense{.format = *format_from_name("dense"), .n = n, .k = int64_t(weights.size()) / n};
  dense.words = weights.data();
  Quantized q;
  q.view = dense;
  q.view.format = format;
  q.view.scale_dtype = format.kind == QuantKind::Affine ? DType::F32 : DType::U8;
  q.words.resize(size_t(n) * word_row_bytes(q.view) / 4);
  q.scales.resize(size_t(n) * scale_row_bytes(q.view));
  q.biases.resize(format_row(format.kind).has_biases ? q.scales.size() : 0);
  q.view.words = q.words.data();
  q.view.scales = q.scales.data();
  q.view.biases = q.biases.data();
  quantize_rows(dense, format, {.words = q.words.data(), .scales = q.scales.data(), .biases = q.biases.data()});
  return q;
}

Quantized quantize(const std::vector<float>& weights, std::string_view format) {
  return quantize(weights, 1, *format_from_name(format));
}

std::vector<float> worked_group() {
  std::vector<float> w;
  for (int i = 0; i < 32; ++i) w.push_back(float(i % 16) * 0.5f - 2);
  return w;
}

struct WorkedRow {
  const char* format;
  std::vector<uint32_t> words;
  float scale;  // the byte, for the fp modes
};

TEST(Quantize, TheWorkedGroupOfTheDocument) {
  const WorkedRow rows[] = {
      {"affine2g32", {0x01556aaf, 0x01556aaf}, -2.75f},
      {"affine3g32", {0x9b92dbb7, 0xdbb70094, 0x00949b92}, 5.5f / -5},
      {"affine4g32", {0x89abcdef, 0x01234567, 0x89abcdef, 0x01234567}, -0.5f},
      {"affine5g32", {0xeb7cefbf, 0x6429af8c, 0xefbf0088, 0xaf8ceb7c, 0x00886429}, 5.5f / -23},
      {"affine6g32", {0xaecb6eff, 0x565d866a, 0x00420d45, 0xaecb6eff, 0x565d866a, 0x00420d45}, 5.5f / -46},
      {"affine8g32",
       {0xccddeeff, 0x8899aabb, 0x44556677, 0x00112233, 0xccddeeff, 0x8899aabb, 0x44556677, 0x00112233},
       5.5f / -187},
      {"mxfp4", {0x32109abc, 0x76665544, 0x32109abc, 0x76665544}, 127},
      {"mxfp8", {0xe0e8ecf0, 0x6c686000, 0x76747270, 0x7b7a7978, 0xe0e8ecf0, 0x6c686000, 0x76747270, 0x7b7a7978}, 121},
      {"nvfp4", {0x32109abc, 0x77666554, 0x32109abc, 0x77666554}, 55},
  };
  for (const WorkedRow& row : rows) {
    const Quantized q = quantize(worked_group(), row.format);
    EXPECT_EQ(q.words, row.words) << row.format;
    if (!q.biases.empty()) {
      EXPECT_EQ(q.scale<float>(0), row.scale) << row.format;
      EXPECT_EQ(q.bias(0), 5.5f) << row.format;
    } else {
      for (size_t i = 0; i < q.scales.size(); ++i) EXPECT_EQ(q.scale<uint8_t>(i), row.scale) << row.format;
    }
  }
  EXPECT_EQ(reference_dequantize(quantize(worked_group(), "affine4g32").view), worked_group());
  EXPECT_EQ(reference_dequantize(quantize(worked_group(), "affine8g32").view).front(), -2.0f);
  EXPECT_EQ(reference_dequantize(quantize(worked_group(), "mxfp8").view), worked_group());
}

TEST(Quantize, TheEndOfLargerMagnitudeIsMetExactly) {
  std::vector<float> w;
  for (int i = 0; i < 64; ++i) w.push_back(float(-1 + 3.0 * i / 63));
  const Quantized q = quantize(w, "affine4g64");
  EXPECT_EQ(q.scale<float>(0), 2.0f / -10);
  EXPECT_EQ(q.bias(0), 2.0f);
  for (float& x : w) x = -x;
  const Quantized mirrored = quantize(w, "affine4g64");
  EXPECT_EQ(mirrored.scale<float>(0), 2.0f / 10);
  EXPECT_EQ(mirrored.bias(0), -2.0f);
  EXPECT_EQ(mirrored.words, q.words);
}

TEST(Quantize, AllZerosStayZero) {
  for (const char* format : {"affine2g32", "affine4g64", "affine6g128", "mxfp4", "mxfp8", "nvfp4"}) {
    const Quantized q = quantize(std::vector<float>(128), format);
    for (float x : reference_dequantize(q.view)) EXPECT_EQ(x, 0.0f) << format;
  }
}

TEST(Quantize, ErrorsAreAtMostHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> w(4 * 256);
  for (float& x : w) x = normal(random);
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      const Quantized q = quantize(w, 4, {.kind = QuantKind::Affine, .bits = bits, .group = group});
      const std::vector<float> decoded = reference_dequantize(q.view);
      for (size_t i = 0; i < w.size(); ++i) {
        const float step = std::fabs(q.scale<float>(i / size_t(group)));
        // Moving the scale so that zero is met costs the far end up to a step at few bits.
        EXPECT_LE(std::fabs(decoded[i] - w[i]), step * 1.01f) << bits << " bits, group " << group;
      }
    }
  }
}

// With MLX's arithmetic (no lower limit for the exponent) the scale byte is 248 and the group decodes to 2^121 and
// more.
TEST(Quantize, TinyGroupsGetTheSmallestScale) {
  for (const char* format : {"mxfp4", "mxfp8"}) {
    const Quantized q = quantize(std::vector<float>(32, 1e-40f), format);
    EXPECT_EQ(q.scale<uint8_t>(0), 0) << format;
    for (float x : reference_dequantize(q.view)) EXPECT_LE(std::fabs(x), 0x1p-127f) << format;
  }
}

TEST(Quantize, EveryE4m3ValueEncodesToItself) {
  for (int code = 0; code < 256; ++code) {
    if (code % 128 == 0x7f) continue;
    EXPECT_EQ(f32_to_e4m3(e4m3_to_f32(uint8_t(code))), code);
  }
  EXPECT_EQ(f32_to_e4m3(1e30f), 0x7e);
  EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(f32_to_e4m3(std::nanf("")), 0x7e);
  EXPECT_EQ(f32_to_e4m3(17.0f), 0x58);  // between 16 and 18, to the even one
  EXPECT_EQ(f32_to_e4m3(19.0f), 0x5a);
}

TEST(Quantize, ValuesThatAreNotFiniteGiveSomeCode) {
  std::vector<float> w(128, 1.0f);
  w[3] = std::nanf("");
  w[40] = std::numeric_limits<float>::infinity();
  w[70] = -std::numeric_limits<float>::infinity();
  for (const char* format : {"affine2g32", "affine4g64", "affine8g128", "mxfp4", "mxfp8", "nvfp4"}) quantize(w, format);
}

TEST(Quantize, WhatDoesNotFitIsRefused) {
  const std::vector<float> w(96);
  EXPECT_THROW(quantize(w, 1, {.kind = QuantKind::Affine, .bits = 7, .group = 32}), Error);
  EXPECT_THROW(quantize(w, 1, {.kind = QuantKind::Affine, .bits = 4, .group = 64}), Error);
  EXPECT_NO_THROW(quantize(w, 1, {.kind = QuantKind::Affine, .bits = 4, .group = 32}));
}

}  // namespace
}  // namespace loft
