// backend: every op of every registered backend against slow references in double: awkward shapes, all float types,
// rows with gaps, outputs that start as NaN. Attention has its own file.
#include "backend/conformance_data.h"

namespace loft {
namespace {

using conformance::DeviceTensor;
using conformance::expect_close;

constexpr DType kFloats[] = {DType::F32, DType::F16, DType::BF16};
constexpr int64_t kWidths[] = {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 576};

class Conformance : public conformance::MachineTest {};

INSTANTIATE_TEST_SUITE_P(Each, Conformance, testing::ValuesIn(conformance::machines()),
                         [](const auto& param) { return param.param.name; });

std::string where(DType dtype, int64_t d, int64_t gap) {
  return std::string(dtype_name(dtype)) + ", width " + std::to_string(d) + ", gap " + std::to_string(gap);
}

TEST_P(Conformance, RmsNormDividesByTheRootMeanSquare) {
  for (DType dtype : kFloats) {
    for (DType weight_dtype : kFloats) {
      for (int64_t d : kWidths) {
        for (int64_t gap : {0, 5}) {
          DeviceTensor x(backend(), dtype, {3, d}, gap), w(backend(), weight_dtype, {d}),
              y(backend(), dtype, {3, d}, gap);
          x.fill(uint64_t(d), 3.0f);
          w.fill(7);
          const float offset = gap ? 1.0f : 0.0f;
          backend().rms_norm({.x = x.view(), .weight = w.view(), .y = y.view(), .eps = 1e-5f, .weight_offset = offset});
          const auto xs = x.values(), ws = w.values();
          std::vector<double> wanted;
          for (int64_t row = 0; row < 3; ++row) {
            double squares = 0;
            for (int64_t i = 0; i < d; ++i) squares += double(xs[size_t(row * d + i)]) * xs[size_t(row * d + i)];
            const double inverse = 1.0 / std::sqrt(squares / double(d) + double(1e-5f));
            for (int64_t i = 0; i < d; ++i) {
              wanted.push_back(xs[size_t(row * d + i)] * inverse * (double(offset) + ws[size_t(i)]));
            }
          }
          expect_close(y.values(), wanted, dtype, 64, where(dtype, d, gap));
          backend().rms_norm({.x = x.view(), .weight = w.view(), .y = x.view(), .eps = 1e-5f, .weight_offset = offset});
          EXPECT_EQ(x.bytes(), y.bytes()) << "in place, " << where(dtype, d, gap);
        }
      }
    }
  }
}

TEST_P(Conformance, RopeRotatesPairsHalfARotationApart) {
  struct Case {
    int64_t head_dim, n_rot;
  };
  for (DType dtype : kFloats) {
    for (const Case c : {Case{2, 2}, Case{64, 64}, Case{80, 32}, Case{34, 34}, Case{65, 6}, Case{128, 128}}) {
      for (int64_t gap : {0, 3}) {
        const int64_t m = 5, heads = 3, half = c.n_rot / 2;
        DeviceTensor x(backend(), dtype, {m, heads, c.head_dim}, gap), positions(backend(), DType::I32, {m});
        DeviceTensor inv_freq(backend(), DType::F32, {half});
        const std::vector<int32_t> p = {0, 1, 77, 4095, 131071};
        std::vector<float> freq;
        for (int64_t i = 0; i < half; ++i) freq.push_back(float(std::pow(10000.0, -double(i) / double(half))));
        positions.set_ints(p);
        inv_freq.set(freq);
        x.fill(11);
        const float scale = gap ? 1.25f : 1.0f;
        const auto before = x.values();
        std::vector<double> wanted(before.begin(), before.end());
        for (int64_t row = 0; row < m * heads; ++row) {
          for (int64_t i = 0; i < half; ++i) {
            const double angle = double(p[size_t(row / heads)]) * double(freq[size_t(i)]);
            const size_t low = size_t(row * c.head_dim + i), high = low + size_t(half);
            wanted[low] = scale * (before[low] * std::cos(angle) - before[high] * std::sin(angle));
            wanted[high] = scale * (before[high] * std::cos(angle) + before[low] * std::sin(angle));
          }
        }
        backend().rope({.x = x.view(), .positions = positions.view(), .inv_freq = inv_freq.view(), .scale = scale});
        expect_close(x.values(), wanted, dtype, 32, where(dtype, c.head_dim, gap));
      }
    }
  }
}

TEST_P(Conformance, SumsAndBiases) {
  for (DType dtype : kFloats) {
    for (int64_t d : kWidths) {
      for (int64_t gap : {0, 5}) {
        DeviceTensor a(backend(), dtype, {3, d}, gap), b(backend(), dtype, {3, d}, gap),
            y(backend(), dtype, {3, d}, gap);
        a.fill(1);
        b.fill(2);
        const auto as = a.values(), bs = b.values();
        std::vector<double> wanted;
        for (size_t i = 0; i < as.size(); ++i) wanted.push_back(double(as[i]) + bs[i]);
        backend().add(a.view(), b.view(), y.view());
        expect_close(y.values(), wanted, dtype, 4, "add " + where(dtype, d, gap));
        backend().add(a.view(), b.view(), b.view());
        EXPECT_EQ(b.bytes(), y.bytes()) << "in place, " << where(dtype, d, gap);
        for (DType bias_dtype : kFloats) {
          DeviceTensor bias(backend(), bias_dtype, {d}), z(backend(), dtype, {3, d}, gap);
          bias.fill(3);
          const auto bias_values = bias.values();
          for (size_t i = 0; i < as.size(); ++i) wanted[i] = double(as[i]) + bias_values[i % size_t(d)];
          backend().add_bias(a.view(), bias.view(), z.view());
          expect_close(z.values(), wanted, dtype, 4, "bias " + where(dtype, d, gap));
        }
      }
    }
  }
}

double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_P(Conformance, GatedActivations) {
  for (DType dtype : kFloats) {
    for (int64_t d : kWidths) {
      for (int64_t gap : {0, 5}) {
        DeviceTensor gate(backend(), dtype, {3, d}, gap), up(backend(), dtype, {3, d}, gap);
        gate.fill(1, 3.0f);
        up.fill(2);
        const auto g = gate.values(), u = up.values();
        for (Activation act : {Activation::Silu, Activation::GeluTanh}) {
          DeviceTensor y(backend(), dtype, {3, d}, gap);
          std::vector<double> wanted;
          for (size_t i = 0; i < g.size(); ++i) {
            wanted.push_back((act == Activation::Silu ? g[i] / (1.0 + std::exp(-double(g[i]))) : gelu_tanh(g[i])) *
                             u[i]);
          }
          backend().gated_activation(act, gate.view(), up.view(), y.view());
          expect_close(y.values(), wanted, dtype, 64, where(dtype, d, gap));
        }
      }
    }
  }
}

TEST_P(Conformance, SoftcapBoundsByTanh) {
  for (DType dtype : kFloats) {
    for (int64_t d : kWidths) {
      for (int64_t gap : {0, 5}) {
        DeviceTensor x(backend(), dtype, {3, d}, gap), y(backend(), dtype, {3, d}, gap);
        x.fill(5, 40.0f);
        std::vector<double> wanted;
        for (float v : x.values()) wanted.push_back(30.0 * std::tanh(double(v) / 30.0));
        backend().softcap(x.view(), 30.0f, y.view());
        expect_close(y.values(), wanted, dtype, 128, where(dtype, d, gap));
        backend().softcap(x.view(), 30.0f, x.view());
        EXPECT_EQ(x.bytes(), y.bytes());
      }
    }
  }
}

TEST_P(Conformance, CastsRoundToNearestEven) {
  std::vector<float> special = {0.0f,     -0.0f,     1.0f,           65504.0f,    65519.0f,   65520.0f,
                                1e30f,    3e38f,     -3.4e38f,       5.96e-8f,    2.98e-8f,   1e-40f,
                                INFINITY, -INFINITY, 1.00048828125f, 1.00390625f, 1.01171875f};
  for (DType from : kFloats) {
    for (DType to : kFloats) {
      DeviceTensor x(backend(), from, {int64_t(special.size())}), y(backend(), to, {int64_t(special.size())});
      x.set(special);
      backend().cast(x.view(), y.view());
      const auto xs = x.values(), ys = y.values();
      for (size_t i = 0; i < xs.size(); ++i) {
        uint32_t wanted = uint32_t(conformance::round_bits(xs[i], to));
        EXPECT_EQ(conformance::round_bits(ys[i], to), wanted)
            << dtype_name(from) << " to " << dtype_name(to) << " of " << xs[i];
      }
      DeviceTensor nan(backend(), from, {3}), out(backend(), to, {3});
      nan.set({NAN, 1.0f, NAN});
      backend().cast(nan.view(), out.view());
      const auto outs = out.values();
      EXPECT_TRUE(std::isnan(outs[0]) && outs[1] == 1.0f && std::isnan(outs[2]));
    }
  }
}

TEST_P(Conformance, GatherCopiesRows) {
  for (DType dtype : kFloats) {
    for (int64_t d : kWidths) {
      for (int64_t gap : {0, 5}) {
        DeviceTensor x(backend(), dtype, {4, d}, gap), rows(backend(), DType::I32, {6}),
            y(backend(), dtype, {6, d}, gap);
        x.fill(9);
        const std::vector<int32_t> index = {3, 0, 0, 2, 1, 3};
        rows.set_ints(index);
        backend().gather_rows(x.view(), rows.view(), y.view());
        const auto xs = x.values(), ys = y.values();
        for (int64_t i = 0; i < 6 * d; ++i) ASSERT_EQ(ys[size_t(i)], xs[size_t(index[size_t(i / d)] * d + i % d)]);
      }
    }
  }
}

/// Random words are valid in every format; scales are small numbers of the format's type.
struct Table {
  Table(Backend& backend, const QuantFormat& format, DType type, int64_t n, int64_t k) {
    std::mt19937_64 random(17);
    weight = {.format = format, .n = n, .k = k, .dense_dtype = type, .scale_dtype = type};
    if (format_row(format.kind).scale_dtype == DType::U8) weight.scale_dtype = DType::U8;
    const bool is_dense = format.kind == QuantKind::Dense;
    words.resize(word_row_bytes(weight) * size_t(n));
    for (size_t i = 0; i < words.size(); ++i) words[i] = uint8_t(random());
    if (is_dense) store_floats(words, random);
    scales.resize(is_dense ? 0 : scale_row_bytes(weight) * size_t(n));
    if (weight.scale_dtype == DType::U8) {
      for (uint8_t& s : scales) s = uint8_t(120 + random() % 8);
    } else if (!is_dense) {
      store_floats(scales, random);
    }
    biases = scales;
    device = backend.allocate(words.size() + scales.size() + biases.size());
    on_device = weight;
    auto* at = static_cast<uint8_t*>(device.data());
    const auto place = [&](const std::vector<uint8_t>& part) {
      const uint8_t* here = at;
      backend.upload(at, part.data(), part.size());
      at += part.size();
      return here;
    };
    weight.words = words.data();
    on_device.words = place(words);
    if (is_dense) return;
    weight.scales = scales.data();
    on_device.scales = place(scales);
    if (!format_row(format.kind).has_biases) return;
    weight.biases = biases.data();
    on_device.biases = place(biases);
  }
  void store_floats(std::vector<uint8_t>& bytes, std::mt19937_64& random) const {
    const DType type = weight.format.kind == QuantKind::Dense ? weight.dense_dtype : weight.scale_dtype;
    std::normal_distribution<float> normal(0.0f, 0.1f);
    for (size_t i = 0; i < bytes.size(); i += dtype_bytes(type)) {
      const uint64_t u = conformance::round_bits(normal(random), type);
      std::memcpy(&bytes[i], &u, dtype_bytes(type));
    }
  }
  std::vector<uint8_t> words, scales, biases;
  QuantWeight weight, on_device;
  Buffer device;
};

TEST_P(Conformance, EmbedReadsRowsOfEveryFormat) {
  std::vector<QuantFormat> formats = {{QuantKind::Dense, 32, 0}, {QuantKind::Dense, 16, 0}};
  for (const FormatRow& row : format_rows()) {
    if (row.kind == QuantKind::Dense) continue;
    for (int bits : {2, 3, 4, 5, 6, 8}) {
      for (int group : {16, 32, 64, 128}) {
        if (row.is_valid(bits, group)) formats.push_back({row.kind, bits, group});
      }
    }
  }
  for (const QuantFormat& format : formats) {
    for (DType type : kFloats) {
      if (format.kind == QuantKind::Dense && int(dtype_bytes(type)) * 8 != format.bits) continue;
      const int64_t n = 9, k = 640;
      const Table table(backend(), format, type, n, k);
      const std::vector<int32_t> ids = {8, 0, 3, 3};
      DeviceTensor id(backend(), DType::I32, {4});
      id.set_ints(ids);
      for (DType y_dtype : kFloats) {
        DeviceTensor y(backend(), y_dtype, {4, k}, 3);
        backend().embed(id.view(), table.on_device, nullptr, 1.5f, y.view());
        const auto ys = y.values();
        std::vector<float> row(static_cast<size_t>(k));
        for (size_t r = 0; r < ids.size(); ++r) {
          dequantize_run(table.weight, ids[r], 0, k, row.data());
          for (size_t i = 0; i < size_t(k); ++i) {
            ASSERT_EQ(conformance::round_bits(ys[r * size_t(k) + i], y_dtype),
                      conformance::round_bits(row[i] * 1.5f, y_dtype))
                << format_name(format) << ", row " << r << ", element " << i;
          }
        }
      }
    }
  }
}

TEST_P(Conformance, MemoryIsCountedAndLimited) {
  BackendOptions options = GetParam().options;
  options.cpu.memory_limit = 1 << 20;
  const auto limited = open_backend(GetParam().device, options);
  EXPECT_EQ(limited->memory().active_bytes, 0u);
  {
    const Buffer a = limited->allocate(1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
    const Buffer b = limited->allocate(500000);
    EXPECT_EQ(limited->memory().active_bytes, 501000u);
    try {
      limited->allocate(600000);
      ADD_FAILURE() << "the limit was ignored";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::OutOfMemory);
      EXPECT_NE(std::string(error.what()).find("need 600000"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("have 547576"), std::string::npos) << error.what();
    }
    EXPECT_EQ(limited->memory().active_bytes, 501000u);
  }
  EXPECT_EQ(limited->memory().active_bytes, 0u);
  EXPECT_EQ(limited->memory().peak_bytes, 501000u);
  limited->reset_peak();
  EXPECT_EQ(limited->memory().peak_bytes, 0u);
  EXPECT_THROW(backend().allocate(SIZE_MAX - 100), Error);
  EXPECT_THROW(backend().allocate(SIZE_MAX / 4), Error);
  EXPECT_EQ(backend().memory().active_bytes, 0u);
}

}  // namespace
}  // namespace loft
