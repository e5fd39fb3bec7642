// engine: generation_config.json and the union of stop ids.
#include "engine/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"

namespace loft {
namespace {

std::vector<int64_t> read_ids(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_member(object, key);
  if (!value || value->is_null()) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<int64_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > 2147483647.0) {
      fail(Code::Corrupt, "{}.{}: found {}, wanted a token id or a list of them", where, key, brief(id));
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

GenerationConfig from_json(const Json& json, std::string_view where) {
  if (!json.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object", where, brief(json));
  GenerationConfig config;
  config.eos_token_ids = read_ids(json, "eos_token_id", where);
  config.do_sample = loft::find<bool>(json, "do_sample", where);
  config.temperature = loft::find<double>(json, "temperature", where);
  config.top_p = loft::find<double>(json, "top_p", where);
  config.top_k = loft::find<int64_t>(json, "top_k", where);
  config.min_p = loft::find<double>(json, "min_p", where);
  config.repetition_penalty = loft::find<double>(json, "repetition_penalty", where);
  try {
    check_sampler_params(default_sampling(config), 0);
  } catch (const Error& e) {
    fail(Code::Corrupt, "{}: {}", where, e.what());
  }
  return config;
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  return from_json(read_json_file(path), path.string());
}

GenerationConfig parse_generation_config(std::string_view json, std::string_view where) {
  return from_json(parse_json(json, where), where);
}

SamplerParams default_sampling(const GenerationConfig& config) {
  SamplerParams params;
  if (config.temperature || config.top_p || config.top_k || config.min_p) {
    params.temperature = config.temperature.value_or(1.0);
    params.top_p = config.top_p.value_or(1.0);
    params.top_k = config.top_k.value_or(0);
    params.min_p = config.min_p.value_or(0.0);
  }
  params.repetition_penalty = config.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

std::vector<int32_t> union_of_stop_ids(const StopSources& sources, int64_t vocab_size) {
  std::vector<int32_t> ids;
  const auto take = [&](int64_t id, const char* source) {
    if (id >= 0 && id < vocab_size) {
      ids.push_back(int32_t(id));
    } else {
      log_warn("stop id {} of {} is outside the vocabulary of {} ids and is left out", id, source, vocab_size);
    }
  };
  if (sources.tokenizer_eos) take(*sources.tokenizer_eos, "the tokenizer");
  for (int64_t id : sources.config_eos) take(id, "config.json");
  for (int64_t id : sources.generation_eos) take(id, "generation_config.json");
  for (int64_t id : sources.added) {
    if (id < 0 || id >= vocab_size) {
      fail(Code::BadRequest, "stop id {} is outside the vocabulary of {} ids", id, vocab_size);
    }
    ids.push_back(int32_t(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace loft
