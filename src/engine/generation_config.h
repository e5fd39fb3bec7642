// engine: what a checkpoint says about generating: its stop tokens and its sampling. The files of the folder enter, one
// set of stop ids and one SamplerParams leave, the same for the command line and every route of the server.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sampler.h"

namespace loft {

/// generation_config.json. Absent members are unset.
struct GenerationConfig {
  std::vector<int64_t> eos_token_ids;  // one id or a list in the file
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

/// An absent file gives an empty config. Errors: Corrupt for a wrong type or a value out of range, naming key and file.
GenerationConfig read_generation_config(const std::filesystem::path& folder);
GenerationConfig parse_generation_config(std::string_view json, std::string_view where);

/// Sampling where the user says nothing: what the checkpoint's publisher set, with everything that is left out neutral;
/// the fixed defaults of SamplerParams when the file says nothing about sampling. do_sample false is not read as
/// greedy: it is the writer's default in many uploads that recommend a temperature.
SamplerParams default_sampling(const GenerationConfig& config);

/// Ids that end an answer, from each source that names one.
struct StopSources {
  std::optional<int64_t> tokenizer_eos;
  std::span<const int64_t> config_eos;      // config.json
  std::span<const int64_t> generation_eos;  // generation_config.json
  std::span<const int64_t> added;           // by flag
};

/// The union, ascending. Ids of files outside [0, vocab_size) are left out with a warning; an added one is BadRequest.
std::vector<int32_t> union_of_stop_ids(const StopSources& sources, int64_t vocab_size);

}  // namespace loft
