// backend: attention of every registered backend against softmax in double, and the two promises about bytes: a row
// does not depend on how rows are cut into batches, nor on the thread count.
#include "backend/conformance_data.h"

namespace loft {
namespace {

using conformance::DeviceTensor;
using conformance::expect_close;

constexpr DType kFloats[] = {DType::F32, DType::F16, DType::BF16};
constexpr DType kKvTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8};

/// One sequence of a model's layer: all its queries, keys and values, [n, heads, head_dim] each, and the shape.
struct Layer {
  int64_t n_heads = 3, n_kv_heads = 1, head_dim = 16;
  int64_t window = 0;
  float softcap = 0.0f;
  DType x_dtype = DType::F32, kv_dtype = DType::F32;
  float scale() const { return 1.0f / std::sqrt(float(head_dim)); }
};
struct Sequence {
  Sequence(const Layer& layer, int64_t n_tokens, uint64_t seed) : n(n_tokens) {
    q = values(layer, layer.n_heads, seed, 2.0f);
    k = values(layer, layer.n_kv_heads, seed + 1, 1.0f);
    v = values(layer, layer.n_kv_heads, seed + 2, 1.0f);
  }
  std::vector<float> values(const Layer& layer, int64_t heads, uint64_t seed, float scale) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> out(size_t(n * heads * layer.head_dim));
    for (float& x : out) {
      const uint64_t u = conformance::round_bits(normal(random), layer.x_dtype);
      uint8_t bytes[8];
      std::memcpy(bytes, &u, 8);
      x = conformance::widen(bytes, layer.x_dtype);
    }
    return out;
  }
  int64_t n;
  std::vector<float> q, k, v;
};

/// What the cache holds of rows of head_dim values: rounded, or with I8 codes of max|x| / 127 each.
std::vector<double> stored(const Layer& layer, const std::vector<float>& from) {
  std::vector<double> out;
  for (size_t first = 0; first < from.size() && layer.kv_dtype == DType::I8; first += size_t(layer.head_dim)) {
    float a = 0;
    for (int64_t c = 0; c < layer.head_dim; ++c) a = std::max(a, std::abs(from[first + size_t(c)]));
    const float scale = a / 127.0f, inverse = 127.0f / a;
    for (int64_t c = 0; c < layer.head_dim; ++c) {
      const float code = std::nearbyintf(from[first + size_t(c)] * inverse);
      out.push_back(a == 0 ? 0.0 : double(scale) * double(code));
    }
  }
  for (size_t i = 0; i < from.size() && layer.kv_dtype != DType::I8; ++i) {
    const uint64_t u = conformance::round_bits(from[i], layer.kv_dtype);
    uint8_t bytes[8];
    std::memcpy(bytes, &u, 8);
    out.push_back(double(conformance::widen(bytes, layer.kv_dtype)));
  }
  return out;
}

/// Softmax attention in double over the keys and values as the cache holds them. [n, n_heads, head_dim].
std::vector<double> reference(const Layer& layer, const Sequence& s) {
  const std::vector<double> k = stored(layer, s.k), v = stored(layer, s.v);
  const int64_t d = layer.head_dim, group = layer.n_heads / layer.n_kv_heads;
  std::vector<double> out;
  for (int64_t i = 0; i < s.n; ++i) {
    for (int64_t h = 0; h < layer.n_heads; ++h) {
      const int64_t first = layer.window ? std::max<int64_t>(0, i - layer.window + 1) : 0;
      std::vector<double> score, y(size_t(d), 0.0);
      for (int64_t j = first; j <= i; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < d; ++c) {
          dot += double(s.q[size_t((i * layer.n_heads + h) * d + c)]) *
                 k[size_t((j * layer.n_kv_heads + h / group) * d + c)];
        }
        dot *= double(layer.scale());
        score.push_back(layer.softcap > 0 ? layer.softcap * std::tanh(dot / layer.softcap) : dot);
      }
      const double peak = *std::max_element(score.begin(), score.end());
      double sum = 0;
      for (double& p : score) sum += p = std::exp(p - peak);
      for (int64_t j = first; j <= i; ++j) {
        for (int64_t c = 0; c < d; ++c) {
          y[size_t(c)] += score[size_t(j - first)] / sum * v[size_t((j * layer.n_kv_heads + h / group) * d + c)];
        }
      }
      out.insert(out.end(), y.begin(), y.end());
    }
  }
  return out;
}

/// A ring of keys and values that starts as NaN, so that reading what was never stored shows.
struct Ring {
  Ring(Backend& backend, const Layer& layer, int64_t capacity)
      : k(backend, layer.kv_dtype, {layer.n_kv_heads, capacity, layer.head_dim}),
        v(backend, layer.kv_dtype, {layer.n_kv_heads, capacity, layer.head_dim}),
        k_scales(backend, DType::F32, {layer.n_kv_heads, capacity}),
        v_scales(backend, DType::F32, {layer.n_kv_heads, capacity}),
        view{.dtype = layer.kv_dtype,
             .k = k.view().data,
             .v = v.view().data,
             .k_scales = k_scales.view().as<float>(),
             .v_scales = v_scales.view().as<float>(),
             .capacity = capacity} {}
  DeviceTensor k, v, k_scales, v_scales;
  KvView view;
};

/// Rows of several sequences in one forward pass: for each, the next n_rows positions.
struct Part {
  const Sequence* sequence;
  Ring* ring;
  int64_t n_past, n_rows;
};

std::vector<float> gather(const std::vector<Part>& parts, std::vector<float> Sequence::*member, int64_t row) {
  std::vector<float> out;
  for (const Part& p : parts) {
    const auto& from = p.sequence->*member;
    out.insert(out.end(), from.begin() + p.n_past * row, from.begin() + (p.n_past + p.n_rows) * row);
  }
  return out;
}

/// One layer's store and attention. Returns the values of y, all rows of all parts.
std::vector<float> step(Backend& backend, const Layer& layer, const std::vector<Part>& parts, int64_t gap) {
  int64_t m = 0;
  std::vector<AttentionSegment> segments;
  for (const Part& p : parts) {
    segments.push_back({.kv = p.ring->view, .first_row = m, .n_rows = p.n_rows, .n_past = p.n_past});
    m += p.n_rows;
  }
  const int64_t d = layer.head_dim;
  DeviceTensor q(backend, layer.x_dtype, {m, layer.n_heads, d}, gap), y(backend, layer.x_dtype, {m, layer.n_heads, d});
  DeviceTensor k(backend, layer.x_dtype, {m, layer.n_kv_heads, d}, gap);
  DeviceTensor v(backend, layer.x_dtype, {m, layer.n_kv_heads, d}, gap);
  q.set(gather(parts, &Sequence::q, layer.n_heads * d));
  k.set(gather(parts, &Sequence::k, layer.n_kv_heads * d));
  v.set(gather(parts, &Sequence::v, layer.n_kv_heads * d));
  backend.store_kv({.k = k.view(), .v = v.view(), .segments = segments});
  backend.attention({.q = q.view(),
                     .y = y.view(),
                     .n_kv_heads = layer.n_kv_heads,
                     .scale = layer.scale(),
                     .window = layer.window,
                     .softcap = layer.softcap,
                     .segments = segments});
  return y.values();
}

/// A whole sequence in chunks of the given sizes, the last one repeated.
std::vector<float> run_in_chunks(Backend& backend, const Layer& layer, const Sequence& s, int64_t capacity,
                                 std::vector<int64_t> chunks) {
  Ring ring(backend, layer, capacity);
  std::vector<float> out;
  for (int64_t done = 0, i = 0; done < s.n; ++i) {
    const int64_t n = std::min(s.n - done, chunks[std::min(size_t(i), chunks.size() - 1)]);
    const auto y = step(backend, layer, {{&s, &ring, done, n}}, i % 2 ? 3 : 0);
    out.insert(out.end(), y.begin(), y.end());
    done += n;
  }
  return out;
}

class AttentionConformance : public conformance::MachineTest {};

INSTANTIATE_TEST_SUITE_P(Each, AttentionConformance, testing::ValuesIn(conformance::machines()),
                         [](const auto& param) { return param.param.name; });

TEST_P(AttentionConformance, MatchesSoftmaxInDouble) {
  const Layer shapes[] = {
      {.n_heads = 1, .n_kv_heads = 1, .head_dim = 7},   {.n_heads = 9, .n_kv_heads = 3, .head_dim = 64},
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 80},  {.n_heads = 5, .n_kv_heads = 1, .head_dim = 33},
      {.n_heads = 8, .n_kv_heads = 2, .head_dim = 128}, {.n_heads = 2, .n_kv_heads = 2, .head_dim = 1},
      {.n_heads = 4, .n_kv_heads = 1, .head_dim = 256}};
  for (Layer layer : shapes) {
    for (DType x_dtype : kFloats) {
      for (DType kv_dtype : kKvTypes) {
        for (int64_t n : {1, 2, 65}) {
          layer.x_dtype = x_dtype;
          layer.kv_dtype = kv_dtype;
          const Sequence s(layer, n, 100);
          expect_close(run_in_chunks(backend(), layer, s, n + 3, {n}), reference(layer, s), x_dtype, 64,
                       std::string(dtype_name(x_dtype)) + " " + dtype_name(kv_dtype) + " d " +
                           std::to_string(layer.head_dim) + " n " + std::to_string(n));
        }
      }
    }
  }
}

TEST_P(AttentionConformance, LongSequencesAcrossBlocksAndChunks) {
  for (float softcap : {0.0f, 5.0f}) {
    const Layer layer = {.n_heads = 3, .n_kv_heads = 1, .head_dim = 16, .softcap = softcap, .kv_dtype = DType::F16};
    const Sequence s(layer, 1200, 5);
    expect_close(run_in_chunks(backend(), layer, s, 1200, {700, 400, 1}), reference(layer, s), DType::F32, 64,
                 "softcap " + std::to_string(softcap));
  }
}

TEST_P(AttentionConformance, AWindowSeesOnlyItsPositionsAroundTheRing) {
  for (int64_t window : {1, 2, 7, 64, 100}) {
    for (int64_t chunk : {1, 5, 64}) {
      for (DType kv_dtype : {DType::BF16, DType::I8}) {
        const Layer layer = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .window = window, .kv_dtype = kv_dtype};
        const Sequence s(layer, 330, 9);
        // The smallest ring that holds what a chunk can see: it wraps several times.
        expect_close(run_in_chunks(backend(), layer, s, window + chunk - 1, {chunk}), reference(layer, s), DType::F32,
                     64, "window " + std::to_string(window) + " chunk " + std::to_string(chunk));
      }
    }
  }
}

TEST_P(AttentionConformance, ARowHasTheSameBytesHoweverRowsAreCutIntoBatches) {
  for (const Layer& layer :
       {Layer{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64, .kv_dtype = DType::F16},
        Layer{.n_heads = 4, .n_kv_heads = 4, .head_dim = 33, .softcap = 20.0f},
        Layer{.n_heads = 6, .n_kv_heads = 1, .head_dim = 32, .window = 50, .kv_dtype = DType::BF16},
        Layer{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64, .window = 600, .kv_dtype = DType::I8},
        Layer{.n_heads = 4, .n_kv_heads = 2, .head_dim = 128, .window = 600}}) {
    const Sequence s(layer, 700, 21);
    const auto whole = run_in_chunks(backend(), layer, s, 1400, {700});
    for (const std::vector<int64_t>& chunks :
         {std::vector<int64_t>{1}, {2}, {63, 1, 64, 65}, {5, 128, 3}, {511, 2}, {690, 1}}) {
      const auto cut = run_in_chunks(backend(), layer, s, 1400, chunks);
      ASSERT_EQ(std::memcmp(whole.data(), cut.data(), whole.size() * sizeof(float)), 0)
          << "chunks from " << chunks[0] << ", head_dim " << layer.head_dim;
    }
  }
}

TEST_P(AttentionConformance, OtherSequencesInTheBatchChangeNothing) {
  const Layer layer = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 32, .kv_dtype = DType::F16};
  const Sequence a(layer, 90, 31), b(layer, 600, 41), c(layer, 40, 51);
  const auto alone = run_in_chunks(backend(), layer, b, 640, {600});
  Ring ra(backend(), layer, 128), rb(backend(), layer, 640), rc(backend(), layer, 64);
  std::vector<float> together;
  int64_t pa = 0, pb = 0, pc = 0;
  // a is in its prompt while b decodes one row, then the other way round, beside c.
  for (const auto& [na, nb, nc] : {std::array<int64_t, 3>{30, 560, 1}, {1, 1, 20}, {50, 38, 10}, {2, 1, 9}}) {
    const auto y = step(backend(), layer, {{&a, &ra, pa, na}, {&b, &rb, pb, nb}, {&c, &rc, pc, nc}}, 0);
    const auto row = layer.n_heads * layer.head_dim;
    together.insert(together.end(), y.begin() + na * row, y.begin() + (na + nb) * row);
    pa += na;
    pb += nb;
    pc += nc;
  }
  ASSERT_EQ(together.size(), alone.size());
  EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0);
}

TEST_P(AttentionConformance, TheThreadCountChangesNothing) {
  if (GetParam().device != "cpu") GTEST_SKIP() << "threads are the CPU's";
  const Layer layer = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .kv_dtype = DType::F16};
  const Sequence s(layer, 1100, 61);
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 5}) {
    BackendOptions options = GetParam().options;
    options.cpu.threads = threads;
    const auto other = open_backend("cpu", options);
    // Decode rows above 512 keys are split over threads; with one thread they are not.
    results.push_back(run_in_chunks(*other, layer, s, 1100, {1090, 1}));
  }
  for (const auto& r : results) {
    EXPECT_EQ(std::memcmp(r.data(), results[0].data(), r.size() * sizeof(float)), 0);
  }
}

TEST_P(AttentionConformance, ANanStaysInItsRow) {
  for (DType kv_dtype : {DType::F32, DType::I8}) {
    const Layer layer = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .kv_dtype = kv_dtype};
    Sequence s(layer, 70, 71);
    const auto clean = run_in_chunks(backend(), layer, s, 70, {70});
    for (auto member : {&Sequence::k, &Sequence::v}) {
      Sequence bad = s;
      (bad.*member)[size_t(40 * layer.head_dim + 3)] = NAN;
      const auto y = run_in_chunks(backend(), layer, bad, 70, {70});
      const size_t row = size_t(layer.n_heads * layer.head_dim);
      EXPECT_EQ(std::memcmp(y.data(), clean.data(), 40 * row * sizeof(float)), 0) << "rows before the NaN";
      for (size_t i = 40; i < 70; ++i) EXPECT_TRUE(std::isnan(y[i * row + 3])) << "row " << i;
    }
  }
}

// A row of zeros has no scale to divide by, and one of tiny numbers none that fits.
TEST_P(AttentionConformance, CodesOfZerosAndTinyRowsAreZero) {
  const Layer layer = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 16, .kv_dtype = DType::I8};
  Sequence s(layer, 3, 81);
  std::fill(s.v.begin(), s.v.begin() + 16, 0.0f);
  std::fill(s.v.begin() + 16, s.v.begin() + 32, 0x1p-140f);
  const auto y = run_in_chunks(backend(), layer, s, 3, {2, 1});
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 0.0f) << i;
  for (size_t i = 32; i < 48; ++i) EXPECT_TRUE(std::isfinite(y[i])) << i;
}

}  // namespace
}  // namespace loft
