// quant: the table of formats, their names and sizes, and the one door to decoding. See format.h.
#include "quant/format.h"

#include <fmt/format.h>

#include <charconv>

#include "core/error.h"
#include "quant/affine.h"
#include "quant/mxfp.h"

namespace loft {
namespace {

bool is_valid_dense(int bits, int group) {
  return (bits == 32 || bits == 16) && group == 0;
}
bool is_valid_affine(int bits, int group) {
  return bits >= 2 && bits <= 8 && bits != 7 && (group == 32 || group == 64 || group == 128);
}
bool is_valid_mxfp4(int bits, int group) {
  return bits == 4 && group == 32;
}
bool is_valid_mxfp8(int bits, int group) {
  return bits == 8 && group == 32;
}
bool is_valid_nvfp4(int bits, int group) {
  return bits == 4 && group == 16;
}

void dequantize_dense(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = load_float(w.words, w.dense_dtype, row * w.k + first + i);
}

constexpr FormatRow kRows[] = {
    {QuantKind::Dense, "dense", 32, 0, false, DType::F32, is_valid_dense, " with 16 or 32 bits"},
    {QuantKind::Affine, "affine", 4, 64, true, DType::F32, is_valid_affine,
     " with 2, 3, 4, 5, 6 or 8 bits and group 32, 64 or 128"},
    {QuantKind::Mxfp4, "mxfp4", 4, 32, false, DType::U8, is_valid_mxfp4, ""},
    {QuantKind::Mxfp8, "mxfp8", 8, 32, false, DType::U8, is_valid_mxfp8, ""},
    {QuantKind::Nvfp4, "nvfp4", 4, 16, false, DType::U8, is_valid_nvfp4, ""},
};

// Decoders in the order of kRows; format.h keeps its row free of functions that need the view of a weight.
using Dequantize = void (*)(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out);
constexpr Dequantize kDequantize[] = {dequantize_dense, dequantize_affine, dequantize_mxfp, dequantize_mxfp,
                                      dequantize_mxfp};
static_assert(std::size(kRows) == std::size(kDequantize));

constexpr bool rows_stand_in_order_of_kind() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (size_t(kRows[i].kind) != i) return false;
  }
  return true;
}
static_assert(rows_stand_in_order_of_kind());

// Reads a whole number at the start of `text` and removes it; nullopt when there is none.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return value;
}

// What `text_of` says of each row but the dense one, with commas.
template <class TextOf>
std::string joined_modes(const TextOf& text_of) {
  std::string out;
  for (const FormatRow& row : kRows) {
    if (row.kind != QuantKind::Dense) out += (out.empty() ? "" : ", ") + std::string(text_of(row));
  }
  return out;
}

}  // namespace

std::span<const FormatRow> format_rows() {
  return kRows;
}

const FormatRow& format_row(QuantKind kind) {
  LOFT_CHECK(size_t(kind) < std::size(kRows));
  return kRows[size_t(kind)];
}

std::optional<QuantKind> quant_kind_from_mode(std::string_view mode) {
  for (const FormatRow& row : kRows) {
    if (row.kind != QuantKind::Dense && mode == row.name) return row.kind;
  }
  return std::nullopt;
}

bool is_valid(const QuantFormat& format) {
  return size_t(format.kind) < std::size(kRows) && format_row(format.kind).is_valid(format.bits, format.group);
}

std::string format_name(const QuantFormat& format) {
  const FormatRow& row = format_row(format.kind);
  if (format.kind == QuantKind::Affine) return fmt::format("{}{}g{}", row.name, format.bits, format.group);
  if (format.kind == QuantKind::Dense && format.bits != row.default_bits)
    return fmt::format("{}{}", row.name, format.bits);
  return row.name;
}

std::optional<QuantFormat> format_from_name(std::string_view name) {
  for (const FormatRow& row : kRows) {
    if (!name.starts_with(row.name)) continue;
    QuantFormat format{.kind = row.kind, .bits = row.default_bits, .group = row.default_group};
    std::string_view rest = name.substr(std::string_view(row.name).size());
    if (!rest.empty()) {
      const std::optional<int> bits = take_number(rest);
      if (!bits) return std::nullopt;
      format.bits = *bits;
    }
    if (!rest.empty()) {
      if (rest.front() != 'g') return std::nullopt;
      rest.remove_prefix(1);
      const std::optional<int> group = take_number(rest);
      if (!group || !rest.empty()) return std::nullopt;
      format.group = *group;
    }
    return is_valid(format) ? std::optional(format) : std::nullopt;
  }
  return std::nullopt;
}

QuantFormat parse_format(std::string_view flag, std::string_view name) {
  const std::optional<QuantFormat> format = format_from_name(name);
  if (format) return *format;
  const std::string names = joined_modes([](const FormatRow& row) {
    return format_name({.kind = row.kind, .bits = row.default_bits, .group = row.default_group});
  });
  fail(Code::BadRequest, "{}: found '{}', wanted one as {}", flag, name, names);
}

std::string quant_mode_names() {
  return joined_modes([](const FormatRow& row) { return row.name; });
}

std::string quant_mode_choices() {
  return joined_modes([](const FormatRow& row) { return fmt::format("{}{}", row.name, row.choices); });
}

size_t word_row_bytes(const QuantWeight& w) {
  if (w.format.kind == QuantKind::Dense) return size_t(w.k) * dtype_bytes(w.dense_dtype);
  return size_t(w.k) * size_t(w.format.bits) / 8;
}

size_t scale_row_bytes(const QuantWeight& w) {
  if (w.format.kind == QuantKind::Dense) return 0;
  return size_t(w.k / w.format.group) * dtype_bytes(w.scale_dtype);
}

size_t weight_bytes(const QuantWeight& w) {
  const size_t n_side_parts = w.format.kind == QuantKind::Dense ? 0 : format_row(w.format.kind).has_biases ? 2 : 1;
  return size_t(w.n) * (word_row_bytes(w) + n_side_parts * scale_row_bytes(w));
}

QuantWeight slice_rows(const QuantWeight& w, int64_t begin, int64_t end) {
  LOFT_CHECK_MSG(0 <= begin && begin <= end && end <= w.n, "rows [{}, {}) of {}", begin, end, w.n);
  const auto advance = [begin](const void* part, size_t row_bytes) -> const void* {
    return part ? static_cast<const uint8_t*>(part) + size_t(begin) * row_bytes : nullptr;
  };
  QuantWeight slice = w;
  slice.n = end - begin;
  slice.words = advance(w.words, word_row_bytes(w));
  slice.scales = advance(w.scales, scale_row_bytes(w));
  slice.biases = advance(w.biases, scale_row_bytes(w));
  return slice;
}

void dequantize_run(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out) {
  const int64_t step = w.format.kind == QuantKind::Dense ? 1 : w.format.group;
  LOFT_CHECK_MSG(row >= 0 && row < w.n && first >= 0 && count >= 0 && first + count <= w.k && first % step == 0 &&
                     count % step == 0,
                 "row {} of {}, run {} + {} of {}, group {}", row, w.n, first, count, w.k, w.format.group);
  LOFT_DCHECK(is_valid(w.format));
  kDequantize[size_t(w.format.kind)](w, row, first, count, out);
}

}  // namespace loft
