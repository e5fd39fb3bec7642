// Speed of the tokenizer on one core: bytes of text a second, for the families of models. The text is made of sketched
// words and of others, so that merges and fallbacks both have work; nothing in it comes from a file.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "text/tokenizer.h"
#include "text/tokenizer_sketch.h"

namespace loft {
namespace {

constexpr size_t kTextBytes = 1 << 20;

std::vector<std::string> random_words(std::mt19937& rng, int n_words) {
  std::vector<std::string> words;
  std::uniform_int_distribution<int> letter('a', 'z'), length(2, 10);
  for (int i = 0; i < n_words; ++i) {
    std::string word = " ";
    for (int n = length(rng); n > 0; --n) word += char(letter(rng));
    words.push_back(word);
  }
  return words;
}

// Words by rank with the frequencies of Zipf's law; one of eight is not in the vocabulary, some lines and numbers
// between.
std::string random_text(std::mt19937& rng, const std::vector<std::string>& words) {
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  const std::vector<std::string> others = random_words(rng, 5000);
  std::string text;
  while (text.size() < kTextBytes) {
    const double r = unit(rng);
    const std::vector<std::string>& from = r < 0.125 ? others : words;
    text += from[size_t(std::pow(double(from.size()), unit(rng))) - 1];
    if (r > 0.9) text += r > 0.95 ? ",\n" : " 1234";
  }
  return text;
}

std::string escaped(std::string_view pattern) {
  std::string text;
  for (char c : pattern) text += c == '\\' ? std::string("\\\\") : std::string(1, c);
  return text;
}

std::string pattern_of(std::string_view name) {
  return escaped(
      name == "llama3"
          ? R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
          : R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

TokenizerSketch family(std::string_view name) {
  TokenizerSketch sketch;
  sketch.decoder = R"({"type":"ByteLevel"})";
  if (name == "gpt2") sketch.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false})";
  if (name == "llama3" || name == "regex") sketch.pre_tokenizer = sketch_split(pattern_of(name));
  if (name == "sentencepiece") {
    sketch.byte_level = false;
    sketch.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
    sketch.decoder = sketch_space_decoder(false);
    sketch.model_members = R"(,"byte_fallback":true,"fuse_unk":true,"unk_token":"<unk>")";
  }
  return sketch;
}

void bench_encode(benchmark::State& state, const char* name) {
  std::mt19937 rng(1);
  std::vector<std::string> words = random_words(rng, 20000);
  const std::string text = random_text(rng, words);
  TokenizerSketch sketch = family(name);
  if (!sketch.byte_level) {
    for (std::string& word : words) word.replace(0, 1, "▁");
  }
  sketch.words = words;
  const Tokenizer tokenizer = Tokenizer::from_json(sketch_tokenizer_json(sketch), name);
  size_t n_ids = 0;
  for (auto _ : state) {
    const std::vector<int32_t> ids = tokenizer.encode(text, false);
    n_ids = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(int64_t(state.iterations()) * int64_t(text.size()));
  state.counters["bytes_per_id"] = double(text.size()) / double(n_ids);
}

BENCHMARK_CAPTURE(bench_encode, gpt2, "gpt2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bench_encode, llama3, "llama3")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bench_encode, regex, "regex")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bench_encode, sentencepiece, "sentencepiece")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace loft
