// measure: what names a checkpoint independently of its folder and its weights' values: for results and traces.
#pragma once
#include <filesystem>
#include <string>

namespace loft {

/// SHA-256 of config.json's bytes and of the table of tensors: one line "name type dims" each, by name. Reads headers
/// only. Errors: those of reading them.
std::string model_id(const std::filesystem::path& folder);

}  // namespace loft
