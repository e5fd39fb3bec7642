// engine: opening backend, tokenizer and model by the option table.
#include "engine/open_engine.h"

#include <chrono>
#include <string_view>

#include "backend/registry.h"
#include "qmm/policy.h"

namespace loft {
namespace {

constexpr int64_t kMaxTokenId = 2147483647;

int64_t whole_number(std::string_view text, std::string_view option) {
  uint64_t value = 0;
  if (!parse_whole(text, 0, uint64_t(kMaxTokenId), value)) {
    fail(Code::BadRequest, "{}: found '{}', wanted a token id", option, text);
  }
  return int64_t(value);
}

LogitBias bias_from_text(std::string_view text) {
  const size_t equals = text.find('=');
  double bias = 0;
  if (equals == std::string_view::npos || !AnyReal::parse(text.substr(equals + 1), bias)) {
    fail(Code::BadRequest, "--logit-bias: found '{}', wanted ID=NUMBER", text);
  }
  return {.id = int32_t(whole_number(text.substr(0, equals), "--logit-bias")), .bias = float(bias)};
}

}  // namespace

DType activation_dtype(const Options& options) {
  return options.dtype == "auto" ? DType::F32 : *dtype_from_name(options.dtype);
}

DType kv_dtype(const Options& options) {
  if (options.kv_dtype == "int8") return DType::I8;
  if (options.kv_dtype != "auto") return *dtype_from_name(options.kv_dtype);
  const DType activations = activation_dtype(options);
  return activations == DType::F32 ? DType::F16 : activations;
}

SamplerParams sampling_from_options(const Options& options, const SamplerParams& defaults) {
  SamplerParams p = defaults;
  p.temperature = options.temperature.value_or(p.temperature);
  if (options.top_k) p.top_k = int64_t(std::min<uint64_t>(*options.top_k, uint64_t(kMaxTokenId)));
  p.top_p = options.top_p.value_or(p.top_p);
  p.min_p = options.min_p.value_or(p.min_p);
  p.xtc_probability = options.xtc_probability;
  p.xtc_threshold = options.xtc_threshold;
  p.repetition_penalty = options.repeat_penalty.value_or(p.repetition_penalty);
  p.penalty_window = int64_t(std::min<uint64_t>(options.repeat_last_n, uint64_t(kMaxTokenId)));
  p.presence_penalty = options.presence_penalty;
  p.frequency_penalty = options.frequency_penalty;
  for (const std::string& text : options.logit_bias) p.logit_bias.push_back(bias_from_text(text));
  if (options.seed) p.seed = *options.seed;
  return p;
}

std::unique_ptr<Backend> backend_from_options(const Options& options) {
  BackendOptions all;
  all.cpu.threads = int(options.threads.value_or(0));
  all.cpu.isa = options.cpu_isa;
  all.cpu.memory_limit = size_t(options.memory_limit.value_or(0));
  all.cpu.cache_limit = size_t(options.cache_limit);
  all.cpu.policy = qmm_policy(options, DeviceKind::Cpu);
  const std::string name = options.device == "auto" ? backend_rows().front().name : options.device;
  return open_backend(name, all);
}

ModelOptions model_options(const Options& options, const ModelConfig& config, int64_t default_parallel) {
  const int64_t parallel = int64_t(options.parallel.value_or(uint64_t(default_parallel)));
  const int64_t context = choose_context(int64_t(options.ctx_size.value_or(0)), config);
  const int64_t chunk = std::min(int64_t(options.prefill_chunk), context);
  return {.dtype = activation_dtype(options),
          .max_rows = std::max(chunk, parallel),
          .max_logit_rows = parallel,
          .dequant_cache = {dequant_cache_mode(options), dequant_cache_limits(options)},
          .kv_plan = {.n_sequences = parallel, .max_tokens = context, .max_chunk = chunk, .dtype = kv_dtype(options)}};
}

OpenedEngine open_engine(const std::filesystem::path& folder, const Options& options, int64_t default_parallel) {
  const auto begin = std::chrono::steady_clock::now();
  const GenerationConfig generation = read_generation_config(folder);
  const ModelConfig config = read_config(folder);
  OpenedEngine opened;
  opened.sampling = sampling_from_options(options, default_sampling(generation));
  check_sampler_params(opened.sampling, config.vocab_size);

  const ModelOptions for_model = model_options(options, config, default_parallel);
  EngineOptions engine_options;
  engine_options.parallel = for_model.kv_plan.n_sequences;
  engine_options.prefill_chunk = int64_t(options.prefill_chunk);
  engine_options.kv_dtype = for_model.kv_plan.dtype;
  engine_options.context = for_model.kv_plan.max_tokens;
  EngineParts parts;
  parts.backend = backend_from_options(options);
  parts.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder));
  std::vector<int64_t> added;
  for (const std::string& text : options.stop_id) added.push_back(whole_number(text, "--stop-id"));
  engine_options.stop_ids = union_of_stop_ids({.tokenizer_eos = parts.tokenizer->eos_id(),
                                               .config_eos = config.eos_token_ids,
                                               .generation_eos = generation.eos_token_ids,
                                               .added = added},
                                              config.vocab_size);
  MemoryPlan plan;
  parts.model = load_model(folder, *parts.backend, for_model, &plan);
  opened.engine = std::make_unique<Engine>(std::move(parts), engine_options);
  opened.engine->set_load(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
                          plan);
  return opened;
}

}  // namespace loft
