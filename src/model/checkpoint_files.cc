// model: files of a checkpoint folder. See checkpoint_files.h.
#include "model/checkpoint_files.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCopiedEndings[] = {".json", ".jinja", ".txt", ".jsonl", ".model", ".tiktoken"};
constexpr const char* kNotCopied[] = {"config.json", "hf_quant_config.json"};
constexpr const char* kTemplates = "additional_chat_templates";

bool is_copied(const std::string& name) {
  if (name.starts_with('.') || name.ends_with(".index.json")) return false;
  if (std::ranges::find(kNotCopied, name) != std::end(kNotCopied)) return false;
  const auto ends_so = [&](const char* ending) { return name.ends_with(ending); };
  return name.starts_with("LICENSE") || std::ranges::any_of(kCopiedEndings, ends_so);
}

// Within a Hugging Face cache a folder is ROOT/models--ORG--NAME/snapshots/COMMIT and its files are links to blobs, at
// most two hops away but inside ROOT. Any other folder is its own boundary.
fs::path boundary_of(const fs::path& canonical_folder) {
  const fs::path snapshots = canonical_folder.parent_path();
  const fs::path repository = snapshots.parent_path();
  if (snapshots.filename() == "snapshots" && repository.filename().string().starts_with("models--")) {
    return repository.parent_path();
  }
  return canonical_folder;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() && in_path != path.end();
}

void copy_one(const fs::path& folder, const fs::path& file, const fs::path& to) {
  const fs::path real = resolve_checkpoint_file(folder, file);
  std::error_code why;
  fs::copy_file(real, to, why);
  if (!why) return;
  const Code code = why == std::errc::no_space_on_device ? Code::OutOfMemory : Code::NotFound;
  fail(code, "{}: cannot be copied to {}: {}", file.string(), to.string(), why.message());
}

}  // namespace

fs::path resolve_checkpoint_file(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::canonical(file, error);
  if (error) fail(Code::NotFound, "{}: {}; is the download finished?", file.string(), error.message());
  const fs::path boundary = boundary_of(fs::canonical(folder, error));
  if (error || !is_inside(target, boundary)) {
    fail(Code::Corrupt, "{}: leads to {}, outside of {}", file.string(), target.string(), boundary.string());
  }
  for (fs::path twin : {file, target}) {
    twin += ".incomplete";
    if (fs::exists(twin, error)) {
      fail(Code::NotFound, "{}: the download is not finished, {} is there", file.string(), twin.string());
    }
  }
  return target;
}

void copy_side_files(const fs::path& src, const fs::path& dst) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(src, error)) {
    const std::string name = entry.path().filename().string();
    if (is_copied(name) && entry.is_regular_file(error)) copy_one(src, entry.path(), dst / name);
  }
  if (error) fail(Code::NotFound, "{}: {}", src.string(), error.message());
  if (!fs::is_directory(src / kTemplates, error)) return;
  fs::create_directory(dst / kTemplates);
  for (const fs::directory_entry& entry : fs::directory_iterator(src / kTemplates, error)) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".jinja") copy_one(src, entry.path(), dst / kTemplates / name);
  }
}

OutputFolder::OutputFolder(const fs::path& dst) : dst_(dst.has_filename() ? dst : dst.parent_path()) {
  // "dst/" would put the temporary name inside dst; "." has no name to put anything beside.
  if (dst_.empty() || dst_.filename() == "." || dst_.filename() == "..") {
    fail(Code::BadRequest, "{}: wanted the name of a new folder", dst.string());
  }
  std::error_code why;
  if (fs::exists(fs::symlink_status(dst_, why))) fail(Code::BadRequest, "{}: exists already", dst_.string());
  const fs::path parent = dst_.has_parent_path() ? dst_.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, why)) fail(Code::BadRequest, "{}: no such folder", parent.string());
  fs::path part = dst_;
  part += fmt::format(".part-{}", ::getpid());
  if (!fs::create_directory(part, why)) {
    fail(Code::BadRequest, "{}: cannot make this folder: {}", part.string(),
         why ? why.message() : "it is there already");
  }
  part_ = std::move(part);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove_all(part_, ignored);
}

void OutputFolder::commit() {
  std::error_code why;
  // rename() would silently replace an empty folder that came up meanwhile.
  if (fs::exists(fs::symlink_status(dst_, why))) fail(Code::BadRequest, "{}: exists already", dst_.string());
  fs::rename(part_, dst_, why);
  if (why) fail(Code::BadRequest, "{}: cannot be made: {}", dst_.string(), why.message());
  part_.clear();
}

}  // namespace loft
