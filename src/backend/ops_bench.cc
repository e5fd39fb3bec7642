// backend: how fast the ops run: attention of a prompt and of one token at the shapes of SmolLM2 135M and Llama 8B,
// norms and activations, and the cost of an empty parallel loop. Argument 0 of each is the thread count (0: chosen).
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "backend/registry.h"

namespace loft {
namespace {

struct Heads {
  int64_t n_heads, n_kv_heads, head_dim;
};
constexpr Heads kSmolLm2 = {9, 3, 64};
constexpr Heads kLlama8b = {32, 8, 128};

std::unique_ptr<Backend> open_cpu(int64_t threads) {
  return open_backend("cpu", {.cpu = {.threads = int(threads), .isa = "auto", .memory_limit = 0, .policy = {}}});
}

/// Device memory with small values, so that no sum overflows or becomes subnormal.
Buffer filled(Backend& backend, int64_t elements, DType dtype) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> bytes(size_t(elements) * dtype_bytes(dtype));
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < elements; ++i) {
    const float x = normal(random);
    if (dtype == DType::F32) reinterpret_cast<float*>(bytes.data())[i] = x;
    if (dtype == DType::F16) reinterpret_cast<uint16_t*>(bytes.data())[i] = f32_to_f16(x);
    if (dtype == DType::BF16) reinterpret_cast<uint16_t*>(bytes.data())[i] = f32_to_bf16(x);
  }
  Buffer buffer = backend.allocate(bytes.size());
  backend.upload(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

void attention(benchmark::State& state, const Heads& h, int64_t n_past, int64_t m) {
  const auto backend = open_cpu(state.range(0));
  const int64_t tokens = n_past + m;
  const Buffer k = filled(*backend, h.n_kv_heads * tokens * h.head_dim, DType::F16);
  const Buffer v = filled(*backend, h.n_kv_heads * tokens * h.head_dim, DType::F16);
  const Buffer q = filled(*backend, m * h.n_heads * h.head_dim, DType::F32);
  const Buffer y = filled(*backend, m * h.n_heads * h.head_dim, DType::F32);
  const AttentionSegment segment = {
      .kv = {.dtype = DType::F16, .k = k.data(), .v = v.data(), .capacity = tokens}, .n_rows = m, .n_past = n_past};
  const AttentionArgs args = {.q = make_tensor(q.data(), DType::F32, {m, h.n_heads, h.head_dim}),
                              .y = make_tensor(y.data(), DType::F32, {m, h.n_heads, h.head_dim}),
                              .n_kv_heads = h.n_kv_heads,
                              .scale = 0.125f,
                              .segments = {&segment, 1}};
  for (auto _ : state) backend->attention(args);
  // Multiplications and additions with visible keys only; bytes of keys and values once.
  const double pairs = double(m) * double(n_past) + 0.5 * double(m) * double(m + 1);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOPS"] = benchmark::Counter(4e-9 * pairs * double(h.n_heads * h.head_dim), rate);
  state.counters["GB/s"] = benchmark::Counter(4e-9 * double(tokens * h.n_kv_heads * h.head_dim), rate);
}

void prefill_smollm2(benchmark::State& state) {
  attention(state, kSmolLm2, 0, state.range(1));
}
void prefill_llama8b(benchmark::State& state) {
  attention(state, kLlama8b, 0, state.range(1));
}
void decode_smollm2(benchmark::State& state) {
  attention(state, kSmolLm2, state.range(1) - 1, 1);
}
void decode_llama8b(benchmark::State& state) {
  attention(state, kLlama8b, state.range(1) - 1, 1);
}
BENCHMARK(prefill_smollm2)->ArgsProduct({{1, 0}, {128, 512, 2048}})->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(prefill_llama8b)->ArgsProduct({{1, 0}, {512}})->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(decode_smollm2)->ArgsProduct({{1, 0}, {64, 512, 8192}})->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(decode_llama8b)->ArgsProduct({{1, 0}, {512, 32768}})->UseRealTime()->Unit(benchmark::kMicrosecond);

void rms_norm(benchmark::State& state) {
  const auto backend = open_cpu(state.range(0));
  const int64_t m = state.range(1), d = state.range(2);
  const Buffer x = filled(*backend, m * d, DType::F32), w = filled(*backend, d, DType::BF16);
  const Buffer y = filled(*backend, m * d, DType::F32);
  const RmsNormArgs args = {.x = make_tensor(x.data(), DType::F32, {m, d}),
                            .weight = make_tensor(w.data(), DType::BF16, {d}),
                            .y = make_tensor(y.data(), DType::F32, {m, d})};
  for (auto _ : state) backend->rms_norm(args);
  state.SetBytesProcessed(state.iterations() * m * d * 8);
}
BENCHMARK(rms_norm)->ArgsProduct({{1, 0}, {1, 512}, {576, 4096}})->UseRealTime()->Unit(benchmark::kMicrosecond);

void silu_mul(benchmark::State& state) {
  const auto backend = open_cpu(state.range(0));
  const int64_t m = state.range(1), n = state.range(2);
  const Buffer gate = filled(*backend, m * n, DType::F32), up = filled(*backend, m * n, DType::F32);
  const auto g = make_tensor(gate.data(), DType::F32, {m, n}), u = make_tensor(up.data(), DType::F32, {m, n});
  const Buffer out = filled(*backend, m * n, DType::F32);
  const auto y = make_tensor(out.data(), DType::F32, {m, n});
  for (auto _ : state) backend->gated_activation(Activation::Silu, g, u, y);
  state.SetBytesProcessed(state.iterations() * m * n * 12);
}
BENCHMARK(silu_mul)->ArgsProduct({{1, 0}, {1, 512}, {1536}})->UseRealTime()->Unit(benchmark::kMicrosecond);

void rope(benchmark::State& state) {
  const auto backend = open_cpu(state.range(0));
  const int64_t m = state.range(1);
  const Buffer x = filled(*backend, m * 9 * 64, DType::F32), freq = filled(*backend, 32, DType::F32);
  Buffer positions = backend->allocate(size_t(m) * 4);
  for (int64_t i = 0; i < m; ++i) static_cast<int32_t*>(positions.data())[i] = int32_t(i);
  const RopeArgs args = {.x = make_tensor(x.data(), DType::F32, {m, 9, 64}),
                         .positions = make_tensor(positions.data(), DType::I32, {m}),
                         .inv_freq = make_tensor(freq.data(), DType::F32, {32})};
  for (auto _ : state) backend->rope(args);
  state.SetItemsProcessed(state.iterations() * m);
}
BENCHMARK(rope)->ArgsProduct({{1, 0}, {1, 512}})->UseRealTime()->Unit(benchmark::kMicrosecond);

void empty_parallel_for(benchmark::State& state) {
  ThreadPool pool(int(state.range(0)));
  int64_t sink = 0;
  for (auto _ : state) {
    pool.parallel_for(pool.size(), 1, [&](int64_t begin, int64_t, int thread) {
      if (thread == 0) sink += begin;
    });
  }
  benchmark::DoNotOptimize(sink);
}
BENCHMARK(empty_parallel_for)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

}  // namespace
}  // namespace loft
