// model: weights of a GGUF file as MLX tensors. What enters: the list of tensors and where each goes. What leaves:
// shards, the quantization dict, and for each kind of tensor how exact it is. Two passes: the first looks at scales,
// the second writes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "model/convert_steps.h"
#include "model/safetensors.h"

namespace loft {
namespace {

// How one tensor is stored.
struct Storage {
  bool is_quantized = false;
  DType dtype = DType::F16;  // quantized: of scales and biases (U8 for mxfp4); dense: of the values
  bool is_exact = true;      // what the first pass expects; the second measures
};

int64_t row_values(const GgufTensor& t) {
  return int64_t(t.dims[0]);
}
int64_t n_rows(const GgufTensor& t) {
  return t.dims[0] == 0 ? 0 : int64_t(t.n_values / t.dims[0]);
}
int64_t source_row_bytes(const GgufTensor& t) {
  return row_values(t) / t.type->values * t.type->bytes;
}

// The row of the file that belongs at `row`. Interleaved rope stores pairs (2i, 2i + 1) where rotate-half wants (i, D/2
// + i).
int64_t source_row(const WeightStep& step, int64_t row, int64_t rows) {
  if (step.interleaved_heads == 0) return row;
  const int64_t d = rows / step.interleaved_heads;
  const int64_t i = row % d;
  return row - i + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
}

DType stored_float(const GgufBlockType& type) {
  return type.format.bits == 32 ? DType::F32 : std::string_view(type.name) == "BF16" ? DType::BF16 : DType::F16;
}

// The value of a dense element as it will be stored, before rounding.
float shifted(const WeightStep& step, float v) {
  return step.subtract == 0 ? v : v - step.subtract;
}

bool fits_f16_after_shift(const WeightStep& step) {
  const GgufTensor& t = *step.tensor;
  for (int64_t i = 0; i < int64_t(t.n_values); ++i) {
    float v = 0;
    t.type->decode(t.bytes.data() + i * t.type->bytes, &v);
    v = shifted(step, v);
    if (f16_to_f32(f32_to_f16(v)) != v) return false;
  }
  return true;
}

class WeightWriter {
 public:
  WeightWriter(ScaleDType scales, const std::vector<WeightStep>& steps, const ProgressFn& progress,
               ConvertReport& report)
      : scales_(scales), steps_(steps), progress_(progress), report_(report) {
    for (const WeightStep& step : steps) total_ += 2 * step.tensor->bytes.size();
  }

  void choose_storage();
  std::vector<TensorPlan> plan() const;
  void write(SafetensorsWriter& out);
  WrittenWeights summary() const;

 private:
  void advance(const WeightStep& step);
  void write_quantized(const WeightStep& step, const Storage& storage, SafetensorsWriter& out);
  void write_dense(const WeightStep& step, const Storage& storage, SafetensorsWriter& out);

  const ScaleDType scales_;
  const std::vector<WeightStep>& steps_;
  const ProgressFn& progress_;
  ConvertReport& report_;
  std::vector<Storage> storage_;  // one a step
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

void WeightWriter::advance(const WeightStep& step) {
  done_ += step.tensor->bytes.size();
  if (progress_) progress_(done_, total_);
}

void WeightWriter::choose_storage() {
  bool vectors_fit_f16 = true;
  for (const WeightStep& step : steps_) {
    const GgufTensor& t = *step.tensor;
    const GgufScan scan = scan_gguf(*t.type, t.bytes.data(), int64_t(t.n_values));
    if (scan.not_finite) {
      fail(Code::Corrupt, "{}: the block of value {} holds an infinity or NaN ({})", step.source, *scan.not_finite,
           t.type->name);
    }
    Storage s;
    s.is_quantized = t.type->target != GgufTarget::Dense;
    if (!s.is_quantized) {
      s.dtype = stored_float(*t.type);
      if (t.dims.size() == 1 && s.dtype == DType::F32 && !fits_f16_after_shift(step)) vectors_fit_f16 = false;
    } else if (t.type->target == GgufTarget::Mxfp4) {
      s.dtype = DType::U8;
    } else {
      s.is_exact = t.type->target == GgufTarget::Affine && scan.exact_f16;
      if (!scan.fits_f16 || (!s.is_exact && scales_ == ScaleDType::F32)) s.dtype = DType::F32;
      if (!scan.fits_f16 && scales_ == ScaleDType::F16) {
        report_.notes.push_back(fmt::format("{}: f32 scales, since f16 would overflow", step.source));
      }
    }
    storage_.push_back(s);
    advance(step);
  }
  // Norms and biases are f32 in every GGUF. As f16 they leave the model in one 16-bit dtype; only where nothing is
  // lost, and for all or none, since one f32 vector already makes MLX compute in f32.
  if (!vectors_fit_f16) return;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!storage_[i].is_quantized && steps_[i].tensor->dims.size() == 1) storage_[i].dtype = DType::F16;
  }
}

std::vector<TensorPlan> WeightWriter::plan() const {
  std::vector<TensorPlan> plan;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const WeightStep& step = steps_[i];
    const GgufTensor& t = *step.tensor;
    std::vector<uint64_t> shape(t.dims.rbegin(), t.dims.rend());
    if (!storage_[i].is_quantized) {
      plan.push_back({fmt::format("{}.{}", step.module, step.part), storage_[i].dtype, shape});
      continue;
    }
    const uint64_t k = t.dims[0];
    shape.back() = k * uint64_t(t.type->format.bits) / 32;
    plan.push_back({step.module + ".weight", DType::U32, shape});
    shape.back() = k / uint64_t(t.type->format.group);
    plan.push_back({step.module + ".scales", storage_[i].dtype, shape});
    if (t.type->format.kind == QuantKind::Affine) plan.push_back({step.module + ".biases", storage_[i].dtype, shape});
  }
  return plan;
}

void WeightWriter::write(SafetensorsWriter& out) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (storage_[i].is_quantized) {
      write_quantized(steps_[i], storage_[i], out);
    } else {
      write_dense(steps_[i], storage_[i], out);
    }
    advance(steps_[i]);
  }
}

void WeightWriter::write_quantized(const WeightStep& step, const Storage& storage, SafetensorsWriter& out) {
  const GgufTensor& t = *step.tensor;
  const int64_t rows = n_rows(t);
  const int64_t k = row_values(t);
  const bool has_biases = t.type->format.kind == QuantKind::Affine;
  const size_t word_bytes = size_t(k) * size_t(t.type->format.bits) / 8;
  const size_t scale_bytes = size_t(k) / 32 * dtype_bytes(storage.dtype);
  std::vector<uint8_t> words(size_t(rows) * word_bytes);
  std::vector<uint8_t> scales(size_t(rows) * scale_bytes);
  std::vector<uint8_t> biases(has_biases ? scales.size() : 0);
  RepackError worst;
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* blocks = t.bytes.data() + source_row(step, row, rows) * source_row_bytes(t);
    const size_t at = size_t(row);
    const RepackError e = repack_gguf(*t.type, blocks, k,
                                      {.words = words.data() + at * word_bytes,
                                       .scales = scales.data() + at * scale_bytes,
                                       .biases = has_biases ? biases.data() + at * scale_bytes : nullptr,
                                       .scale_dtype = storage.dtype});
    worst.absolute = std::max(worst.absolute, e.absolute);
    worst.relative = std::max(worst.relative, e.relative);
  }
  out.append(words);
  out.append(scales);
  if (has_biases) out.append(biases);
  const bool requantized = t.type->target == GgufTarget::Requantize;
  const Exactness exactness = requantized          ? Exactness::Requantized
                              : worst.absolute > 0 ? Exactness::Rounded
                                                   : Exactness::Exact;
  add_to_report(report_, {.source = t.type->name,
                          .target = has_biases ? fmt::format("{}, scales {}", format_name(t.type->format),
                                                             dtype_name(storage.dtype))
                                               : format_name(t.type->format),
                          .exactness = exactness,
                          .n_tensors = 1,
                          .n_weights = t.n_values,
                          .max_error = worst.absolute,
                          .max_relative_error = worst.relative,
                          .worst_tensor = exactness == Exactness::Exact ? "" : step.source});
}

void WeightWriter::write_dense(const WeightStep& step, const Storage& storage, SafetensorsWriter& out) {
  const GgufTensor& t = *step.tensor;
  const bool is_vector = t.dims.size() == 1;
  const int64_t rows = is_vector ? row_values(t) : n_rows(t);
  const int64_t cols = is_vector ? 1 : row_values(t);
  const size_t width = dtype_bytes(storage.dtype);
  const bool copied = step.subtract == 0 && storage.dtype == stored_float(*t.type);
  std::vector<uint8_t> bytes(size_t(t.n_values) * width);
  double worst = 0;
  double largest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* from = t.bytes.data() + source_row(step, row, rows) * cols * t.type->bytes;
    uint8_t* to = bytes.data() + size_t(row * cols) * width;
    if (copied) {
      std::memcpy(to, from, size_t(cols) * width);
      continue;
    }
    for (int64_t j = 0; j < cols; ++j) {
      float v = 0;
      t.type->decode(from + j * t.type->bytes, &v);
      float kept = shifted(step, v);
      if (storage.dtype == DType::F16) {
        const uint16_t half = f32_to_f16(kept);
        kept = f16_to_f32(half);
        std::memcpy(to + size_t(j) * width, &half, width);
      } else {
        LOFT_CHECK(storage.dtype == DType::F32);
        std::memcpy(to + size_t(j) * width, &kept, width);
      }
      worst = std::max(worst, std::fabs(double(v) - double(step.subtract) - double(kept)));
      largest = std::max(largest, std::fabs(double(v)));
    }
  }
  out.append(bytes);
  add_to_report(report_, {.source = t.type->name,
                          .target = fmt::format("dense {}", dtype_name(storage.dtype)),
                          .exactness = worst > 0 ? Exactness::Rounded : Exactness::Exact,
                          .n_tensors = 1,
                          .n_weights = t.n_values,
                          .max_error = worst,
                          .max_relative_error = largest > 0 ? worst / largest : 0,
                          .worst_tensor = worst > 0 ? step.source : ""});
}

WrittenWeights WeightWriter::summary() const {
  WrittenWeights written;
  std::map<std::string, int> votes;
  for (const WeightStep& step : steps_) {
    const QuantFormat& format = step.tensor->type->format;
    if (format.kind == QuantKind::Dense) continue;
    const int n = ++votes[format_name(format)];
    if (!written.global || n > votes[format_name(*written.global)]) written.global = format;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    const QuantFormat& format = steps_[i].tensor->type->format;
    if (storage_[i].is_quantized && !(format == *written.global)) written.others.emplace_back(steps_[i].module, format);
    if (!storage_[i].is_quantized && storage_[i].dtype != DType::F16) written.torch_dtype = "float32";
  }
  return written;
}

}  // namespace

WrittenWeights write_gguf_weights(ScaleDType scales, const std::vector<WeightStep>& steps,
                                  const std::filesystem::path& folder, const ProgressFn& progress,
                                  ConvertReport& report) {
  WeightWriter writer(scales, steps, progress, report);
  writer.choose_storage();
  const std::vector<TensorPlan> plan = writer.plan();
  SafetensorsWriter out(folder, plan);
  writer.write(out);
  out.finish();
  for (const TensorPlan& tensor : plan) report.bytes_written += tensor.bytes();
  report.n_tensors += plan.size();
  return writer.summary();
}

}  // namespace loft
