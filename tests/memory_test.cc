// Memory of a whole model: the peak of a prefill against weights, workspace, activations, keys and values; what panels
// save; phases; and what gives way when a limit is near.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/open_engine.h"
#include "model/memory_plan.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 2048;

/// Large enough that a forgotten copy of anything shows in 5 %, small enough for a second of arithmetic.
Json small_llama() {
  return {{"model_type", "llama"},    {"hidden_size", 512},
          {"num_hidden_layers", 4},   {"num_attention_heads", 8},
          {"num_key_value_heads", 2}, {"intermediate_size", 1536},
          {"vocab_size", 2048},       {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", false}};
}

const std::filesystem::path& small_model() {
  static const TempFolder temp;
  static const std::filesystem::path path = [] {
    SynthRequest request = tiny_request(small_llama());
    request.format = {QuantKind::Affine, 4, 64};
    synth_checkpoint(request, temp / "m");
    return temp / "m";
  }();
  return path;
}

struct Arm {
  QmmPolicy policy = {};
  DequantCacheOptions cache = {};
  DType dtype = DType::BF16;
  int64_t n_rows = kRows;
  size_t memory_limit = 0;
  int n_passes = 1;
};

QmmPolicy dequantize() {
  QmmPolicy policy;
  policy.fused = QmmFused::Off;
  policy.dequant_m_threshold = 2;
  return policy;
}
QmmPolicy dequantize_whole() {
  QmmPolicy policy = dequantize();
  policy.panel_bytes = 0;
  return policy;
}

struct Measured {
  MemoryPlan plan;
  MemoryStats after;
  size_t active_at_end = 0, active_without_caches = 0;  // sequences are gone
  QmmStats qmm;
  std::vector<uint8_t> logits;  // bytes of the last row
};

Measured measure(const Arm& arm) {
  CpuBackendOptions options;
  options.threads = 2;
  options.policy = arm.policy;
  options.memory_limit = arm.memory_limit;
  const std::unique_ptr<Backend> backend = open_cpu_backend(options);
  const ModelOptions model_options = {
      .dtype = arm.dtype,
      .max_rows = arm.n_rows,
      .max_logit_rows = 1,
      .dequant_cache = arm.cache,
      .kv_plan = {.n_sequences = 1, .max_tokens = arm.n_rows, .max_chunk = arm.n_rows, .dtype = DType::F16}};
  Measured out;
  const std::unique_ptr<Model> model = load_model(small_model(), *backend, model_options);
  out.plan = plan_memory(model->config(), open_checkpoint(small_model()), *backend, model_options);
  const std::vector<int32_t> ids = some_ids(int(arm.n_rows), 2048);
  const int32_t last = int32_t(arm.n_rows - 1);
  for (int pass = 0; pass < arm.n_passes; ++pass) {
    KvCache cache(*backend, model->kv_shape(DType::F16, arm.n_rows, arm.n_rows));
    const BatchSequence sequence{.cache = &cache, .first_row = 0, .n_rows = arm.n_rows};
    backend->reset_peak();
    const Tensor logits = model->forward({.tokens = ids, .sequences = {&sequence, 1}, .logit_rows = {&last, 1}});
    out.logits.resize(logits.bytes());
    backend->download(out.logits.data(), logits.data, logits.bytes());
    out.after = backend->memory();
    out.qmm = model->qmm_stats();
  }
  out.active_at_end = backend->memory().active_bytes;
  model->clear_caches();
  out.active_without_caches = backend->memory().active_bytes;
  return out;
}

/// Seen to fail with the activations left out of the plan (mutant plan_forgets_activations).
TEST(Memory, APrefillPeaksAtWeightsWorkspaceActivationsKeysAndValues) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const QmmPolicy& policy : {QmmPolicy{}, dequantize()}) {
      const Measured m = measure({.policy = policy, .cache = {.mode = DequantCacheMode::Off}, .dtype = dtype});
      const uint64_t peak = m.after.file_bytes + m.after.peak_bytes;
      SCOPED_TRACE(fmt::format("{}: peak {}, plan {} + {} + {} + {}", dtype_name(dtype), peak, m.plan.weight_bytes,
                               m.plan.workspace_bytes, m.plan.activation_bytes, m.plan.kv_bytes));
      EXPECT_LE(double(peak), 1.05 * double(m.plan.total_bytes()));
      EXPECT_GE(double(peak), 0.98 * double(m.plan.total_bytes())) << "the plan does not ask for more than is taken";
      EXPECT_EQ(m.qmm.cache.entries, 0u);
    }
  }
}

/// gate and up are two whole matrices at a time. Seen to fail with temporaries kept after their product and with panels
/// that are not used (mutants temporary_kept, panels_grow).
TEST(Memory, PanelsSaveTheWholeMatrix) {
  constexpr DequantCacheOptions kOff = {.mode = DequantCacheMode::Off};
  const Measured panels = measure({.policy = dequantize(), .cache = kOff, .n_rows = 64});
  const Measured whole = measure({.policy = dequantize_whole(), .cache = kOff, .n_rows = 64});
  EXPECT_EQ(whole.after.peak_bytes - panels.after.peak_bytes, 2u * 1536 * 512 * 2);
  EXPECT_EQ(whole.logits, panels.logits);
}

/// What the published change frees: the entries that stay in the cache after a prefill.
TEST(Memory, TheCacheLeavesItsEntriesActiveAndABypassNothing) {
  const Measured lru = measure({.policy = dequantize(), .cache = {.mode = DequantCacheMode::Lru}, .n_rows = 64});
  const Measured automatic = measure({.policy = dequantize(), .n_rows = 64});
  EXPECT_GT(lru.qmm.cache.entries, 0u);
  EXPECT_EQ(lru.after.active_bytes - automatic.after.active_bytes, lru.qmm.cache.bytes);
  EXPECT_EQ(automatic.qmm.cache.bytes, 0u);
  EXPECT_EQ(lru.active_at_end - lru.active_without_caches, lru.qmm.cache.bytes) << "clear_caches gives all back";
  EXPECT_EQ(lru.logits, automatic.logits);
}

/// A limit with room for two dense matrices, but not for the cache.
/// Seen to fail with the hook of the cache left out (mutant pressure_ignores_the_cache): OutOfMemory.
TEST(Memory, NearALimitTheCacheGivesWayAndTheAnswerIsTheSame) {
  const Measured free = measure({.policy = dequantize(), .cache = {.mode = DequantCacheMode::Lru}, .n_rows = 64});
  const size_t most = free.after.file_bytes + free.after.peak_bytes;
  const size_t limit = most - free.qmm.cache.bytes + 2 * 1536 * 512 * 2;
  const Measured tight =
      measure({.policy = dequantize(), .cache = {.mode = DequantCacheMode::Lru}, .n_rows = 64, .memory_limit = limit});
  EXPECT_EQ(tight.logits, free.logits);
  EXPECT_LT(tight.qmm.cache.bytes, free.qmm.cache.bytes);
  EXPECT_LE(tight.after.file_bytes + tight.after.peak_bytes, limit);
  EXPECT_EQ(tight.qmm.cache.misses, free.qmm.cache.misses);
}

TEST(Memory, WhetherKeysAndValuesFitLooksAtTheLimit) {
  const auto message_of = [](size_t limit, int64_t n_sequences) {
    CpuBackendOptions options;
    options.memory_limit = limit;
    const std::unique_ptr<Backend> backend = open_cpu_backend(options);
    const ModelOptions model_options = {
        .max_rows = 64,
        .max_logit_rows = 1,
        .kv_plan = {.n_sequences = n_sequences, .max_tokens = 4096, .max_chunk = 64, .dtype = DType::F16}};
    return error_of([&] { load_model(small_model(), *backend, model_options); });
  };
  EXPECT_EQ(message_of(0, 1), "");
  EXPECT_EQ(message_of(64 << 20, 1), "");
  EXPECT_THAT(message_of(64 << 20, 100), HasSubstr("bytes by the memory limit"));
  EXPECT_THAT(message_of(8 << 20, 1), HasSubstr("of keys and values")) << "weights count as well";
}

/// Load, prompt and answer each have their own accounts.
TEST(Memory, PhasesOfARun) {
  Options options;
  options.ctx_size = 300;
  options.prefill_chunk = 128;
  options.qmm_fused = "off";
  options.qmm_dequant_m_threshold = 2;
  options.qmm_dequant_cache = "lru";
  options.seed = 1;
  OpenedEngine opened = open_engine(small_model(), options, 1);
  Engine& engine = *opened.engine;
  Request request;
  request.prompt = some_ids(200, 2048);
  request.max_tokens = 4;
  request.ignore_stop_ids = true;
  engine.submit(request);
  while (!engine.is_idle()) engine.step();
  const EngineStats& stats = engine.stats();
  const QmmStats qmm = engine.qmm_stats();
  EXPECT_GT(stats.load.active_bytes, 0u);
  EXPECT_GE(stats.prefill.active_bytes, stats.load.active_bytes + qmm.cache.bytes) << "entries and a KV cache";
  EXPECT_GE(stats.prefill.peak_bytes, stats.prefill.active_bytes);
  EXPECT_LE(stats.decode.peak_bytes - stats.decode.active_bytes, 1u << 20) << "a step of one row takes no large block";
  EXPECT_GT(stats.load.outside_bytes, 0u);
  const MemoryStats before = engine.backend().memory();
  EXPECT_GT(before.file_bytes, 0u);
  EXPECT_GT(before.cache_bytes, 0u) << "evicted entries are kept for reuse";
  engine.clear_caches();
  const MemoryStats after = engine.backend().memory();
  EXPECT_EQ(after.cache_bytes, 0u);
  EXPECT_EQ(before.active_bytes - after.active_bytes, qmm.cache.bytes);
}

}  // namespace
}  // namespace loft
