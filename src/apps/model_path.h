// apps: MODEL -> folder. A word from the command line enters; a folder with a config.json leaves, or an Error that
// lists the nearest names. Reads directories only, never the network.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace loft {

/// Where names are looked up. environment: "NAME=VALUE" strings, for the variables of the Hugging Face cache.
struct ModelSearch {
  std::filesystem::path models_dir;
  std::span<const std::string> environment;
};

/// In this order: a folder; a name in models_dir; ORG/NAME in the Hugging Face cache (refs/main), or NAME alone when
/// one organisation only has it there. Errors: NotFound with the nearest names; BadRequest for a name that fits
/// several; Corrupt for a download that is not complete (names the file) or whose links leave the cache.
std::filesystem::path resolve_model(const std::string& model, const ModelSearch& search);

/// The root of the Hugging Face cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME or ~/.cache
/// with huggingface/hub; empty when none of them is set.
std::filesystem::path hugging_face_cache(std::span<const std::string> environment);

}  // namespace loft
