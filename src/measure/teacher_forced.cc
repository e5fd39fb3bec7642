#include "measure/teacher_forced.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "engine/logits.h"
#include "engine/open_engine.h"
#include "qmm/policy.h"

namespace loft {
namespace {

constexpr int64_t kBlockBytes = int64_t(64) << 20;
constexpr int64_t kBlockStep = 64;

/// The sequences of one call with their caches.
struct Forced {
  Backend& backend;
  Model& model;
  std::span<const ForcedSequence> sequences;
  std::vector<KvCache> caches{};
};

/// The tokens of one pass over some of the sequences, one behind the other.
struct Pass {
  bool is_context = false;
  std::vector<int32_t> tokens{};
  std::vector<BatchSequence> parts{};
  std::vector<int32_t> logit_rows{};
  std::vector<std::pair<int64_t, int64_t>> scored{};  // sequence and row of each logit row
};

Forced open_forced(Backend& backend, Model& model, DType kv_dtype, std::span<const ForcedSequence> sequences) {
  const ForcedNeeds needs = forced_needs(sequences, int64_t(sequences.size()));
  Forced f{.backend = backend, .model = model, .sequences = sequences};
  f.caches.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    f.caches.emplace_back(backend, model.kv_shape(kv_dtype, needs.max_tokens, needs.max_chunk));
  }
  return f;
}

void add_part(Pass& pass, KvCache& cache, std::span<const int32_t> tokens) {
  pass.parts.push_back({.cache = &cache, .first_row = int64_t(pass.tokens.size()), .n_rows = int64_t(tokens.size())});
  pass.tokens.insert(pass.tokens.end(), tokens.begin(), tokens.end());
}

Pass context_pass(Forced& f) {
  Pass pass{.is_context = true};
  for (size_t i = 0; i < f.sequences.size(); ++i) {
    if (!f.sequences[i].context.empty()) add_part(pass, f.caches[i], f.sequences[i].context);
  }
  return pass;
}

Pass scored_pass(Forced& f) {
  Pass pass;
  for (size_t i = 0; i < f.sequences.size(); ++i) {
    const ForcedSequence& s = f.sequences[i];
    const int64_t first = int64_t(pass.tokens.size());
    add_part(pass, f.caches[i], std::span(s.ids).first(size_t(s.n_rows())));
    for (int64_t row = s.first_row; row < s.n_rows(); ++row) {
      pass.logit_rows.push_back(int32_t(first + row));
      pass.scored.emplace_back(int64_t(i), row);
    }
  }
  return pass;
}

/// The logits of one block, row by row.
void give_rows(Backend& backend, const Pass& pass, int64_t first, const Tensor& logits, const ForcedRowFn& on_row) {
  std::vector<uint8_t> raw(size_t(logits.dim(1)) * dtype_bytes(logits.dtype));
  std::vector<float> row(size_t(logits.dim(1)));
  for (int64_t r = 0; r < logits.dim(0); ++r) {
    backend.download(raw.data(), slice_rows(logits, r, r + 1).data, raw.size());
    widen_logits(raw.data(), logits.dtype, row);
    const auto [i, at] = pass.scored[size_t(first + r)];
    on_row(i, at, row);
  }
}

void run_pass(Forced& f, const Pass& pass, const ForwardTaps& taps) {
  f.model.forward({.tokens = pass.tokens, .sequences = pass.parts, .logit_rows = pass.logit_rows, .taps = &taps});
}

ForcedPass recorded_pass(Forced& f, const Pass& pass, const ForwardTaps& taps) {
  ForcedPass out{.is_context = pass.is_context, .rows = int64_t(pass.tokens.size())};
  for (const BatchSequence& part : pass.parts) out.past += part.cache->n_tokens();
  const QmmStats before = f.model.qmm_stats();
  run_pass(f, pass, taps);
  const QmmStats after = f.model.qmm_stats();
  for (int i = 0; i < kQmmRoutes; ++i) {
    const uint64_t count = after.routes[size_t(i)] - before.routes[size_t(i)];
    if (count > 0) out.routes[route_name(QmmRoute(i))] = count;
  }
  for (const auto& [name, count] : after.kernels) {
    const auto had = before.kernels.find(name);
    const uint64_t since = count - (had == before.kernels.end() ? 0 : had->second);
    if (since > 0) out.kernels[name] = since;
  }
  return out;
}

bool is_all_finite(Backend& backend, const Tensor& x) {
  std::vector<uint8_t> raw(x.bytes());
  std::vector<float> values(size_t(x.size()));
  backend.download(raw.data(), x.data, raw.size());
  widen_logits(raw.data(), x.dtype, values);
  return !find_non_finite(values);
}

}  // namespace

int64_t logit_block_rows(int64_t vocab_size) {
  const int64_t rows = kBlockBytes / (vocab_size * int64_t(sizeof(float)));
  return std::max(rows / kBlockStep * kBlockStep, kBlockStep);
}

ForcedNeeds forced_needs(std::span<const ForcedSequence> sequences, int64_t batch) {
  ForcedNeeds needs;
  for (size_t first = 0; first < sequences.size(); first += size_t(batch)) {
    const auto group = sequences.subspan(first, std::min(size_t(batch), sequences.size() - first));
    int64_t rows = 0, context_rows = 0;
    for (const ForcedSequence& s : group) {
      const int64_t context = int64_t(s.context.size());
      rows += s.n_rows();
      context_rows += context;
      needs.max_tokens = std::max(needs.max_tokens, context + s.n_rows());
      needs.max_chunk = std::max({needs.max_chunk, context, s.n_rows()});
    }
    needs.max_rows = std::max({needs.max_rows, rows, context_rows});
    needs.n_sequences = std::max(needs.n_sequences, int64_t(group.size()));
  }
  return needs;
}

ForcedNeeds largest(const ForcedNeeds& a, const ForcedNeeds& b) {
  return {.max_rows = std::max(a.max_rows, b.max_rows),
          .max_tokens = std::max(a.max_tokens, b.max_tokens),
          .max_chunk = std::max(a.max_chunk, b.max_chunk),
          .n_sequences = std::max(a.n_sequences, b.n_sequences)};
}

ModelOptions forced_model_options(const Options& options, const ForcedNeeds& needs, int64_t vocab_size) {
  return {.dtype = activation_dtype(options),
          .max_rows = needs.max_rows,
          .max_logit_rows = std::min(needs.max_rows, logit_block_rows(vocab_size)),
          .dequant_cache = {dequant_cache_mode(options), dequant_cache_limits(options)},
          .kv_plan = {.n_sequences = needs.n_sequences,
                      .max_tokens = needs.max_tokens,
                      .max_chunk = needs.max_chunk,
                      .dtype = kv_dtype(options)}};
}

std::vector<ForcedPass> forced_forward(Backend& backend, Model& model, DType kv_dtype,
                                       std::span<const ForcedSequence> sequences, const ForcedRowFn& on_row) {
  Forced f = open_forced(backend, model, kv_dtype, sequences);
  std::vector<ForcedPass> passes;
  const Pass context = context_pass(f);
  if (!context.tokens.empty()) passes.push_back(recorded_pass(f, context, {}));
  const Pass pass = scored_pass(f);
  const ForwardTaps taps{
      .logits = [&](int64_t first, const Tensor& logits) { give_rows(backend, pass, first, logits, on_row); }};
  passes.push_back(recorded_pass(f, pass, taps));
  return passes;
}

std::string first_non_finite(Backend& backend, Model& model, DType kv_dtype, const ForcedSequence& sequence) {
  Forced f = open_forced(backend, model, kv_dtype, {&sequence, 1});
  std::optional<int64_t> found;
  const ForwardTaps taps{.logits = [](int64_t, const Tensor&) {},
                         .layer =
                             [&](int64_t i, const Tensor& hidden) {
                               if (!found && !is_all_finite(backend, hidden)) found = i;
                             }};
  const Pass context = context_pass(f);
  if (!context.tokens.empty()) run_pass(f, context, taps);
  if (!found) run_pass(f, scored_pass(f), taps);
  if (!found) return "the head";
  return *found < 0 ? "the embedding" : fmt::format("layer {}", *found);
}

}  // namespace loft
