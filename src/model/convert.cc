// model: the frame of a conversion: checks, a new folder that appears when all is written, the report as text.
#include "model/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "model/checkpoint_files.h"
#include "model/convert_steps.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

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
  std::error_code ignored;
  if (!fs::exists(request.src, ignored)) fail(Code::NotFound, "{}: no such file or folder", request.src.string());
  const bool is_folder = fs::is_directory(request.src, ignored);
  if (!is_folder && request.dtype) {
    fail(Code::BadRequest, "{}: a dtype can be chosen for dense safetensors only", request.src.string());
  }
  try {
    OutputFolder folder(request.dst);
    ConvertReport report = is_folder
                               ? convert_dense(request, folder.path(), progress)
                               : convert_gguf(GgufFile::open(request.src), request.scales, folder.path(), progress);
    std::ranges::stable_sort(report.rows, {}, &ConvertRow::exactness);
    folder.commit();
    return report;
  } catch (const fs::filesystem_error& e) {
    const bool full = e.code() == std::errc::no_space_on_device;
    fail(full ? Code::OutOfMemory : Code::BadRequest, "{}: {}", request.dst.string(), e.what());
  }
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
