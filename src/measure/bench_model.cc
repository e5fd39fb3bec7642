// measure: opening a model for a benchmark, what it will need, and the ids that it reads.
#include "measure/bench_model.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "core/error.h"
#include "engine/open_engine.h"
#include "engine/prompt.h"
#include "model/arch_list.h"
#include "model/memory_plan.h"
#include "model/weights.h"
#include "qmm/policy.h"

namespace loft {
namespace {

constexpr std::string_view kText =
    "A mill stands where the river bends. In spring the water is high and the wheel turns all day; in late summer it "
    "stands still, and the miller mends what the year has worn: the sluice, the shaft, the teeth of the great gear. "
    "He counts sacks and hours, 48 of the one and 12 of the other, and writes both into a book with a green cover. "
    "Who wants to know how fast a mill grinds must weigh the flour, not the noise. So he weighs it, twice, with the "
    "same scale, and when the two numbers differ he looks for the reason before he trusts either. \"A number without "
    "its circumstances,\" he says, \"is a rumour.\" for (int day = 0; day < 365; ++day) { total += weigh(day); }\n";

int64_t chunk_of(const BenchSizes& sizes) {
  return std::min(sizes.n_batch, sizes.max_tokens);
}

ModelOptions bench_model_options(const Options& o, const BenchSizes& sizes) {
  return {.dtype = activation_dtype(o),
          .max_rows = std::max(chunk_of(sizes), sizes.n_parallel),
          .max_logit_rows = sizes.n_parallel,
          .dequant_cache = {dequant_cache_mode(o), dequant_cache_limits(o)},
          .kv_plan = {.n_sequences = sizes.n_parallel,
                      .max_tokens = sizes.max_tokens,
                      .max_chunk = chunk_of(sizes),
                      .dtype = kv_dtype(o)}};
}

}  // namespace

MemoryEstimate estimate_memory(const std::filesystem::path& folder, const Options& options, const BenchSizes& sizes) {
  const ModelConfig config = read_config(folder);
  const ArchRow* arch = find_arch(config.model_type);
  LOFT_CHECK(arch);
  const Checkpoint checkpoint(folder, config, arch->modules(config));
  const ModelOptions model = bench_model_options(options, sizes);
  MemoryEstimate e{.plan = plan_memory(config, checkpoint, *backend_from_options(options), model)};
  if (options.qmm_panel_bytes == 0u || dequant_cache_mode(options) == DequantCacheMode::Lru) {
    for (const StoredModule& m : checkpoint.modules()) {
      const bool is_tied_head = m.shape.kind == ModuleKind::Embedding && checkpoint.is_tied();
      if (m.shape.kind != ModuleKind::Linear && m.shape.kind != ModuleKind::Head && !is_tied_head) continue;
      e.dense_bytes = std::max(e.dense_bytes, uint64_t(m.weight.n) * uint64_t(m.weight.k) * dtype_bytes(model.dtype));
    }
  }
  return e;
}

BenchModel open_bench_model(const std::filesystem::path& folder, const Options& options, const BenchSizes& sizes) {
  const auto begin = std::chrono::steady_clock::now();
  const ModelConfig config = read_config(folder);
  BenchModel m{.sizes = sizes, .kv = kv_dtype(options)};
  m.sampling = sampling_from_options(options, {.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0});
  check_sampler_params(m.sampling, config.vocab_size);
  choose_context(sizes.max_tokens, config);
  m.parts.backend = backend_from_options(options);
  if (options.kernels) {
    auto timer = std::make_unique<OpTimer>(std::move(m.parts.backend));
    m.timer = timer.get();
    m.parts.backend = std::move(timer);
  }
  m.parts.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder));
  m.parts.backend->reset_peak();
  m.parts.model = load_model(folder, *m.parts.backend, bench_model_options(options, sizes));
  m.parts.backend->synchronize();
  m.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const MemoryStats memory = m.parts.backend->memory();
  m.load = grown({}, memory);
  return m;
}

std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text, int64_t n) {
  if (text.empty()) text = kText;
  std::vector<int32_t> ids = encode_prompt(tokenizer, text, PromptKind::Raw);
  const std::vector<int32_t> body = encode_prompt(tokenizer, text, PromptKind::Templated);
  if (body.empty()) fail(Code::BadRequest, "the prompt text has no tokens");
  while (int64_t(ids.size()) < n) ids.insert(ids.end(), body.begin(), body.end());
  ids.resize(size_t(n));
  return ids;
}

std::vector<int32_t> random_ids(const Tokenizer& tokenizer, int64_t vocab_size, uint64_t seed, int64_t n) {
  const int64_t end = std::min<int64_t>(vocab_size, tokenizer.vocab_size());
  std::vector<int32_t> ordinary;
  for (int32_t id = 0; id < int32_t(end); ++id) {
    if (tokenizer.piece(id) && !tokenizer.is_special(id)) ordinary.push_back(id);
  }
  if (ordinary.empty()) fail(Code::Corrupt, "the tokenizer has no ordinary id below {}", end);
  // Draws by the engine alone, whose numbers the standard fixes, unlike those of its distributions.
  std::mt19937_64 engine(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(ordinary[engine() % ordinary.size()]);
  return ids;
}

}  // namespace loft
