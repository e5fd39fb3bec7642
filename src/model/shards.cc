// model: the shards of a checkpoint folder as one map of names, and the proof that they are all there. See
// safetensors.h.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "model/checkpoint_files.h"
#include "model/safetensors.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t(256) << 20;

bool is_shard_name(std::string_view name) {
  return name.starts_with("model") && name.ends_with(".safetensors");
}

std::vector<fs::path> list_shards(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) fail(Code::NotFound, "{}: {}", folder.string(), error.message());
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (is_shard_name(name)) shards.push_back(entry.path());
    if (name.starts_with("model") && name.ends_with(".safetensors.incomplete")) {
      fail(Code::NotFound, "{}: the download is not finished", entry.path().string());
    }
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

// weight_map of the index: tensor -> shard. Shard names are plain names of files of this folder.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const Json json = read_json_file(index, {.max_bytes = kMaxIndexBytes, .unique_keys = true});
  const Json* weight_map = find_member(json, "weight_map");
  if (!weight_map || !weight_map->is_object()) fail(Code::Corrupt, "{}: no object \"weight_map\"", index.string());
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, value] : weight_map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : std::string();
    const bool is_plain = shard.find('/') == std::string::npos && shard.find('\\') == std::string::npos &&
                          shard.find('\0') == std::string::npos;
    if (!is_plain || !is_shard_name(shard)) {
      fail(Code::Corrupt, "{}: weight_map.{} is {}, wanted the name of a file model*.safetensors in the same folder",
           index.string(), tensor, brief(value));
    }
    shard_of.emplace(tensor, shard);
  }
  return shard_of;
}

// The numbers in model-00001-of-00003.safetensors; nullopt for other names.
std::optional<std::pair<int, int>> numbers_of(const std::string& name) {
  int number = 0, count = 0, length = 0;
  if (std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &number, &count, &length) != 2) return std::nullopt;
  return size_t(length) == name.size() ? std::optional(std::pair(number, count)) : std::nullopt;
}

// Shards that the names of others promise. One shard that is there proves nothing about the rest.
void check_numbering(const fs::path& folder, const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    const auto numbers = numbers_of(path.filename().string());
    if (!numbers) continue;
    for (int i = 1; i <= numbers->second; ++i) {
      const fs::path wanted = folder / fmt::format("model-{:05}-of-{:05}.safetensors", i, numbers->second);
      if (std::ranges::find(paths, wanted) == paths.end()) {
        fail(Code::NotFound, "{}: missing, {} is there; is the download finished?", wanted.string(),
             path.filename().string());
      }
    }
    return;
  }
}

// A snapshot of the Hugging Face cache may have a listing of its commit, ROOT/models--ORG--NAME/trees/COMMIT.json.
// Every shard in it must be here in full length. Other files may be left out on purpose, and a listing of another
// version says nothing.
void check_listing(const fs::path& folder, const std::vector<fs::path>& paths) {
  std::error_code error;
  const fs::path snapshot = fs::canonical(folder, error);
  if (error || snapshot.parent_path().filename() != "snapshots") return;
  const fs::path listing = snapshot.parent_path().parent_path() / "trees" / (snapshot.filename().string() + ".json");
  if (!fs::exists(listing, error)) return;
  const Json json = read_json_file(listing, {.max_bytes = kMaxIndexBytes});
  const Json* files = find_member(json, "files");
  if (find<int64_t>(json, "format_version", listing.string()) != 1 || !files || !files->is_object()) return;
  for (const auto& [name, entry] : files->items()) {
    if (!is_shard_name(name) || name.find('/') != std::string::npos) continue;
    if (std::ranges::find(paths, folder / name) == paths.end()) {
      fail(Code::NotFound, "{}: missing, {} lists it; is the download finished?", (folder / name).string(),
           listing.string());
    }
    std::optional<int64_t> wanted = find<int64_t>(entry, "lfs_size", listing.string());
    if (!wanted) wanted = find<int64_t>(entry, "size", listing.string());
    const uintmax_t found = fs::file_size(folder / name, error);
    if (!error && wanted && uintmax_t(*wanted) != found) {
      fail(Code::Corrupt, "{}: {} bytes, wanted {} by {}; is the download finished?", (folder / name).string(), found,
           *wanted, listing.string());
    }
  }
}

// Says, once, where the index and the files differ in tensors; what the files hold is what counts.
void compare_with_index(const std::map<std::string, std::string>& shard_of, const Shards& shards,
                        const fs::path& index) {
  size_t n_absent = 0, n_elsewhere = 0;
  std::string example;
  for (const auto& [tensor, shard] : shard_of) {
    const bool is_absent = !shards.find(tensor);
    const bool is_elsewhere = !is_absent && fs::path(shards.file_of(tensor)).filename() != shard;
    n_absent += is_absent;
    n_elsewhere += is_elsewhere;
    if ((is_absent || is_elsewhere) && example.empty()) example = tensor;
  }
  const size_t n_extra = shards.names().size() + n_absent - shard_of.size();
  if (n_extra > 0 && example.empty()) example = "an unlisted one";
  if (n_absent + n_elsewhere + n_extra == 0) return;
  log_warn(
      "{}: disagrees with the files, which are believed: {} tensors are in no file, {} in another file, {} are not "
      "listed ({})",
      index.string(), n_absent, n_elsewhere, n_extra, example);
}

}  // namespace

Shards Shards::open(const fs::path& folder) {
  const std::vector<fs::path> paths = list_shards(folder);
  const fs::path index = folder / kIndexName;
  std::error_code error;
  std::map<std::string, std::string> shard_of;
  const bool has_index = fs::exists(index, error);
  if (has_index) shard_of = read_weight_map(index);
  std::set<std::string> wanted;
  for (const auto& [tensor, shard] : shard_of) wanted.insert(shard);
  for (const fs::path& path : paths) wanted.erase(path.filename().string());
  if (!wanted.empty()) {
    fail(Code::NotFound, "{}: missing, {} names it{}", (folder / *wanted.begin()).string(), kIndexName,
         wanted.size() > 1 ? fmt::format(" and {} others that are missing", wanted.size() - 1) : "");
  }
  check_listing(folder, paths);
  if (paths.empty()) fail(Code::NotFound, "{}: no model*.safetensors in this folder", folder.string());
  if (!has_index) check_numbering(folder, paths);

  Shards shards;
  for (const fs::path& path : paths) {
    resolve_checkpoint_file(folder, path);
    shards.files_.push_back(SafetensorsFile::open(path));
  }
  for (size_t i = 0; i < shards.files_.size(); ++i) {
    for (const auto& [name, tensor] : shards.files_[i].tensors()) {
      const auto [it, is_new] = shards.by_name_.try_emplace(name, &tensor, i);
      if (is_new) continue;
      fail(Code::Corrupt, "tensor {} is in two shards, {} and {}", name, shards.files_[it->second.second].where(),
           shards.files_[i].where());
    }
  }
  if (has_index) compare_with_index(shard_of, shards, index);
  return shards;
}

const StoredTensor* Shards::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second.first;
}

const std::string& Shards::file_of(const std::string& name) const {
  const auto it = by_name_.find(name);
  LOFT_CHECK_MSG(it != by_name_.end(), "no tensor {}", name);
  return files_[it->second.second].where();
}

std::vector<std::string> Shards::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : by_name_) all.push_back(name);
  return all;
}

uint64_t Shards::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, place] : by_name_) total += place.first->bytes.size();
  return total;
}

}  // namespace loft
