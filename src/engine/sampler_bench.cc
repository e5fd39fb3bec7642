// Sampling over the largest vocabulary in use, 262144 ids (Gemma 3): loft_engine_bench.
#include <benchmark/benchmark.h>

#include <random>

#include "engine/sampler.h"

namespace loft {
namespace {

std::vector<float> random_logits() {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> row(262144);
  for (float& x : row) x = normal(rng);
  return row;
}

SamplerParams with(double temperature, int64_t top_k, double top_p, double min_p) {
  SamplerParams p;
  p.temperature = temperature;
  p.top_k = top_k;
  p.top_p = top_p;
  p.min_p = min_p;
  return p;
}

void sample(benchmark::State& state, const SamplerParams& params) {
  const std::vector<float> logits = random_logits();
  std::vector<float> row = logits;  // the samplers in use here leave it as it is
  SamplerScratch scratch;
  for (auto _ : state) benchmark::DoNotOptimize(sample_token(params, {}, row, scratch));
}

BENCHMARK_CAPTURE(sample, greedy, with(0, 0, 1, 0))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, top_k_40, with(0.8, 40, 0.95, 0.05))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, top_p, with(0.8, 0, 0.95, 0))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, min_p, with(0.8, 0, 1, 0.05))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, no_filter, with(1, 0, 1, 0))->Unit(benchmark::kMicrosecond);

void finite(benchmark::State& state) {
  const std::vector<float> logits = random_logits();
  for (auto _ : state) benchmark::DoNotOptimize(find_non_finite(logits));
}
BENCHMARK(finite)->Unit(benchmark::kMicrosecond);

void logprobs(benchmark::State& state) {
  const std::vector<float> logits = random_logits();
  for (auto _ : state) benchmark::DoNotOptimize(row_logprobs(logits, 7, 20));
}
BENCHMARK(logprobs)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace loft
