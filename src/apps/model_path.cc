// apps: looking up a model by folder or name. Layout of the cache: huggingface_hub's documentation, "Understand
// caching".
#include "apps/model_path.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/options.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(std::span<const std::string> environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      std::string value = entry.substr(name.size() + 1);
      return value.empty() ? std::nullopt : std::optional(std::move(value));
    }
  }
  return std::nullopt;
}

bool is_model_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / "config.json", ignored);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// A model of the cache: "ORG/NAME" and its folder models--ORG--NAME.
struct CachedModel {
  std::string name;
  fs::path folder;
};

std::vector<CachedModel> cached_models(const fs::path& root) {
  std::vector<CachedModel> models;
  for (const fs::path& p : entries_of(root)) {
    const std::string file = p.filename().string();
    constexpr std::string_view kPrefix = "models--";
    if (!file.starts_with(kPrefix)) continue;
    std::string name = file.substr(kPrefix.size());
    const size_t separator = name.find("--");
    if (separator != std::string::npos) name.replace(separator, 2, "/");
    models.push_back({name, p});
  }
  return models;
}

/// Only what a loader reads has to be there: a download may leave out READMEs and other formats on purpose.
bool is_needed(std::string_view file) {
  return file.ends_with(".json") || file.ends_with(".safetensors") || file.ends_with(".jinja") ||
         file == "tokenizer.model";
}

/// The listing of the commit, where huggingface_hub left one: each needed file is there with its size.
void check_against_listing(const fs::path& model, const std::string& commit, const fs::path& snapshot) {
  const fs::path listing = model / "trees" / (commit + ".json");
  std::error_code error;
  if (!fs::exists(listing, error)) return;
  const Json tree = read_json_file(listing);
  const Json* version = find_member(tree, "format_version");
  const Json* files = find_member(tree, "files");
  if (!version || *version != 1 || !files || !files->is_object()) return;
  for (const auto& [name, facts] : files->items()) {
    if (!is_needed(name) || name.find('/') != std::string::npos) continue;
    const auto wanted = find<int64_t>(facts, "size", listing.string());
    const fs::path file = snapshot / name;
    const auto found = fs::file_size(file, error);
    if (error)
      fail(Code::Corrupt, "{}: missing, wanted by the listing of this download; finish the download", file.string());
    if (wanted && uint64_t(*wanted) != found) {
      fail(Code::Corrupt, "{}: {} bytes, wanted {}; finish the download", file.string(), found, *wanted);
    }
  }
}

/// Files of a snapshot are links to blobs, by one or two hops; none may lead out of the cache.
void check_links(const fs::path& snapshot, const fs::path& root) {
  std::error_code error;
  const fs::path canonical_root = fs::canonical(root, error);
  for (const fs::path& file : entries_of(snapshot)) {
    if (!fs::is_symlink(file, error)) continue;
    const fs::path target = fs::canonical(file, error);
    if (error) fail(Code::Corrupt, "{}: a link to a file that is not there; finish the download", file.string());
    const auto [end, ignored] =
        std::mismatch(canonical_root.begin(), canonical_root.end(), target.begin(), target.end());
    if (end != canonical_root.end()) {
      fail(Code::Corrupt, "{}: a link to {}, outside the cache {}", file.string(), target.string(), root.string());
    }
  }
}

fs::path snapshot_of(const CachedModel& model, const fs::path& root) {
  std::string commit;
  std::ifstream(model.folder / "refs" / "main") >> commit;
  const bool is_plain_name = !commit.empty() && commit.find('/') == std::string::npos && commit != "..";
  if (!is_plain_name)
    fail(Code::Corrupt, "{}: no commit in refs/main; download the model again", model.folder.string());
  fs::path snapshot = model.folder / "snapshots" / commit;
  check_links(snapshot, root);
  check_against_listing(model.folder, commit, snapshot);
  if (!is_model_folder(snapshot)) {
    fail(Code::Corrupt, "{}: no config.json in the download of {}; finish the download", snapshot.string(), model.name);
  }
  return snapshot;
}

/// Up to three known names, the nearest first.
std::vector<std::string> nearest_names(const std::string& name, std::vector<std::string> known) {
  std::vector<std::string> near;
  const auto take = [&](const std::string& found) {
    near.push_back(found);
    std::erase(known, found);
  };
  while (near.size() < 3) {
    const std::string found = nearest_name(name, known);
    if (found.empty()) break;
    take(found);
  }
  for (size_t i = 0; i < known.size() && near.size() < 3; ++i) {
    if (known[i].find(name) == std::string::npos && name.find(known[i]) == std::string::npos) continue;
    near.push_back(known[i]);
  }
  return near;
}

[[noreturn]] void fail_unknown(const std::string& model, const ModelSearch& search, const fs::path& root,
                               const std::vector<std::string>& known) {
  const std::vector<std::string> near = nearest_names(model, known);
  std::string hint = near.empty() ? "" : fmt::format("; nearest: {}", fmt::join(near, ", "));
  if (hint.empty() && !known.empty()) {
    const std::span<const std::string> some = std::span(known).first(std::min<size_t>(known.size(), 5));
    hint = fmt::format("; there are: {}{}", fmt::join(some, ", "), known.size() > some.size() ? ", ..." : "");
  }
  fail(Code::NotFound, "model '{}': no folder with a config.json, and not found in {}{}{}", model,
       search.models_dir.string(), root.empty() ? "" : " or " + root.string(), hint);
}

}  // namespace

fs::path hugging_face_cache(std::span<const std::string> environment) {
  if (const auto v = variable(environment, "HF_HUB_CACHE")) return *v;
  if (const auto v = variable(environment, "HUGGINGFACE_HUB_CACHE")) return *v;
  if (const auto v = variable(environment, "HF_HOME")) return fs::path(*v) / "hub";
  if (const auto v = variable(environment, "XDG_CACHE_HOME")) return fs::path(*v) / "huggingface" / "hub";
  if (const auto v = variable(environment, "HOME")) return fs::path(*v) / ".cache" / "huggingface" / "hub";
  return {};
}

fs::path resolve_model(const std::string& model, const ModelSearch& search) {
  if (model.empty()) fail(Code::BadRequest, "the model's name is empty");
  std::error_code ignored;
  if (is_model_folder(model)) return model;
  if (fs::is_regular_file(model, ignored)) {
    fail(Code::Unsupported, "model '{}' is a file, wanted a checkpoint folder{}", model,
         model.ends_with(".gguf") ? "; loft convert FILE FOLDER makes one of a GGUF file" : "");
  }
  if (is_model_folder(search.models_dir / model)) return search.models_dir / model;
  if (fs::is_directory(model, ignored)) {
    fail(Code::NotFound, "model '{}': the folder has no config.json", model);
  }

  const fs::path root = hugging_face_cache(search.environment);
  std::vector<CachedModel> fitting;
  std::vector<std::string> known;
  for (const fs::path& p : entries_of(search.models_dir)) {
    if (is_model_folder(p)) known.push_back(p.filename().string());
  }
  for (const CachedModel& c : cached_models(root)) {
    known.push_back(c.name);
    if (c.name == model) return snapshot_of(c, root);
    if (c.name.ends_with("/" + model)) fitting.push_back(c);
  }
  if (fitting.size() == 1) return snapshot_of(fitting[0], root);
  if (fitting.size() > 1) {
    std::vector<std::string> names;
    for (const CachedModel& c : fitting) names.push_back(c.name);
    fail(Code::BadRequest, "model '{}' fits {} models: {}; give one of them in full", model, names.size(),
         fmt::join(names, ", "));
  }
  fail_unknown(model, search, root, known);
}

}  // namespace loft
