// model: the frame of a conversion: checks, a temporary folder beside the destination, one rename at the end, the
// report.
#include "model/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "model/convert_steps.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

// Removes the folder unless it was renamed away.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& beside) {
    path_ = beside;
    path_ += fmt::format(".part-{}", ::getpid());
    std::error_code why;
    if (!fs::create_directory(path_, why)) {
      const std::string text = why ? why.message() : "it is there already";
      fail(Code::BadRequest, "{}: cannot make this folder: {}", path_.string(), text);
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void rename_to(const fs::path& dst) {
    std::error_code why;
    fs::rename(path_, dst, why);
    if (why) fail(Code::BadRequest, "{}: cannot be made: {}", dst.string(), why.message());
    path_.clear();
  }

 private:
  fs::path path_;
};

// "dst/" would put the temporary name inside dst; "." has no name to put anything beside.
fs::path checked_destination(const fs::path& given) {
  fs::path dst = given.has_filename() ? given : given.parent_path();
  if (dst.empty() || dst.filename() == "." || dst.filename() == "..") {
    fail(Code::BadRequest, "{}: wanted the name of a new folder", given.string());
  }
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(dst, ignored))) {
    fail(Code::BadRequest, "{}: exists already; conversion wants a new folder", dst.string());
  }
  const fs::path parent = dst.has_parent_path() ? dst.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, ignored)) fail(Code::BadRequest, "{}: no such folder", parent.string());
  return dst;
}

std::string errors_of(const ConvertRow& row) {
  if (row.exactness == Exactness::Exact) return "";
  return fmt::format(": largest error {:.3g} ({:.2g} of the largest in its group), in {}", row.max_error,
                     row.max_relative_error, row.worst_tensor);
}

}  // namespace

const char* exactness_name(Exactness exactness) {
  constexpr const char* kNames[] = {"exact", "rounded", "requantized"};
  return kNames[size_t(exactness)];
}

ConvertReport convert_checkpoint(const ConvertRequest& request, const ProgressFn& progress) {
  if (request.dtype && !is_float(*request.dtype)) {
    fail(Code::BadRequest, "dtype {}: wanted f32, f16 or bf16", dtype_name(*request.dtype));
  }
  const fs::path dst = checked_destination(request.dst);
  std::error_code ignored;
  if (!fs::exists(request.src, ignored)) fail(Code::NotFound, "{}: no such file or folder", request.src.string());
  const bool is_folder = fs::is_directory(request.src, ignored);
  if (!is_folder && request.dtype) {
    fail(Code::BadRequest, "{}: a dtype can be chosen for dense safetensors only", request.src.string());
  }
  TemporaryFolder folder(dst);
  ConvertReport report =
      is_folder ? convert_dense(request, folder.path(), progress) : convert_gguf(request, folder.path(), progress);
  std::ranges::stable_sort(report.rows, {}, &ConvertRow::exactness);
  folder.rename_to(dst);
  return report;
}

void add_to_report(ConvertReport& report, const ConvertRow& row) {
  const auto same = [&](const ConvertRow& r) {
    return r.source == row.source && r.target == row.target && r.exactness == row.exactness;
  };
  const auto it = std::ranges::find_if(report.rows, same);
  if (it == report.rows.end()) {
    report.rows.push_back(row);
    return;
  }
  it->n_tensors += row.n_tensors;
  it->n_weights += row.n_weights;
  it->max_relative_error = std::max(it->max_relative_error, row.max_relative_error);
  if (row.max_error > it->max_error) {
    it->max_error = row.max_error;
    it->worst_tensor = row.worst_tensor;
  }
}

std::string describe(const ConvertReport& report) {
  std::string text = fmt::format("{} -> model_type {}, {} tensors, {} bytes\n", report.source_kind, report.model_type,
                                 report.n_tensors, report.bytes_written);
  for (const ConvertRow& row : report.rows) {
    text += fmt::format("  {:<11} {:>4} x {:<5} -> {}, {} weights{}\n", exactness_name(row.exactness), row.n_tensors,
                        row.source, row.target, row.n_weights, errors_of(row));
  }
  for (const std::string& note : report.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

}  // namespace loft
