// engine: from a checkpoint folder and the values of the option table to an engine and its defaults. Shared by run,
// serve, bench and the measuring tools, so that they agree on context, stop ids and sampling.
#pragma once
#include <filesystem>
#include <memory>

#include "core/options.h"
#include "engine/engine.h"
#include "engine/generation_config.h"

namespace loft {

struct OpenedEngine {
  std::unique_ptr<Engine> engine;
  SamplerParams sampling;  // flags over generation_config.json over the fixed defaults; seed not set
};

/// The backend that the options name. Errors: Unsupported, BadRequest.
std::unique_ptr<Backend> backend_from_options(const Options& options);

/// How the options want a model loaded: rows of a pass, types, caches. Errors: BadRequest as of choose_context.
ModelOptions model_options(const Options& options, const ModelConfig& config, int64_t default_parallel);

/// Loads the checkpoint. default_parallel: sequences at once where the option parallel is unset. Errors: those of
/// loading; OutOfMemory (need and have) when weights and the caches of all sequences do not fit.
OpenedEngine open_engine(const std::filesystem::path& folder, const Options& options, int64_t default_parallel);

/// Sampling by flags, with `defaults` where the user says nothing. Errors: BadRequest for a malformed or out-of-range
/// value.
SamplerParams sampling_from_options(const Options& options, const SamplerParams& defaults);

/// Activations and key/value types by the options' words: auto is f32 on the CPU, and f16 keys beside f32 activations.
DType activation_dtype(const Options& options);
DType kv_dtype(const Options& options);

}  // namespace loft
