// quant: formats as data. A format says how codes, scales and biases of a weight are stored; it knows no device.
// Layout of packed words: docs/format_mlx_affine.md. Adding a format is a file pair and a row in format.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace loft {

enum class QuantKind : uint8_t { Dense, Affine, Mxfp4, Mxfp8, Nvfp4 };

/// Kind, bits of a code, weights a group. Dense: bits is the width of the element, group is 0.
struct QuantFormat {
  QuantKind kind = QuantKind::Dense;
  int bits = 32;
  int group = 0;
  bool operator==(const QuantFormat&) const = default;
};

/// One row of the table of formats.
struct FormatRow {
  QuantKind kind;
  const char* name;  // the word of MLX's "mode"; "dense"
  int default_bits;  // what MLX assumes when an entry leaves it out
  int default_group;
  bool has_biases;
  DType scale_dtype;  // U8 for the fp modes; affine scales have the checkpoint's float type, here F32
  bool (*is_valid)(int bits, int group);
  const char* choices;  // what is_valid takes, in words behind the name; "" where it takes the defaults alone
};

std::span<const FormatRow> format_rows();
const FormatRow& format_row(QuantKind kind);
std::optional<QuantKind> quant_kind_from_mode(std::string_view mode);
bool is_valid(const QuantFormat& format);
std::string format_name(const QuantFormat& format);                  ///< "affine4g64", "mxfp4", "dense"
std::optional<QuantFormat> format_from_name(std::string_view name);  ///< the inverse; "affine4" means group 64
/// The same. Error: BadRequest naming the flag, what was found and the names of all formats at their defaults.
QuantFormat parse_format(std::string_view flag, std::string_view name);
std::string quant_mode_names();    ///< "affine, mxfp4, mxfp8, nvfp4": all but dense
std::string quant_mode_choices();  ///< the same, each with its choices of bits and group

/// A weight [n, k] as it lies in the checkpoint: a view, any alignment (MLX does not pad its header).
struct QuantWeight {
  QuantFormat format;
  int64_t n = 0;                   // outputs
  int64_t k = 0;                   // inputs
  DType dense_dtype = DType::F32;  // kind Dense: F32, F16 or BF16
  DType scale_dtype = DType::F32;  // affine: F32, F16 or BF16; fp modes: U8
  const void* words = nullptr;     // uint32 [n, k * bits / 32], little-endian bit stream; Dense: [n, k]
  const void* scales = nullptr;    // [n, k / group]; Dense: null
  const void* biases = nullptr;    // [n, k / group]; affine only
  float global_scale = 1.0f;       // nvfp4 only: factor on every scale, nvfp4_factor(P.global_scale) in quant/mxfp.h
};

/// Bytes of one row of words, of scales (and of biases, where the format has them), and of all parts of the weight.
size_t word_row_bytes(const QuantWeight& w);
size_t scale_row_bytes(const QuantWeight& w);
size_t weight_bytes(const QuantWeight& w);

/// Rows [begin, end) of w as a view of the same memory.
QuantWeight slice_rows(const QuantWeight& w, int64_t begin, int64_t end);

/// Decodes weights [row, first .. first + count) as f32 into out [count]. first and count are multiples of the group
/// (Dense: any run). The truth for every kernel: bit for bit what MLX's CPU `dequantize` gives for f32 scales and an
/// f32 result, that is q * scale + bias with product and sum each rounded to f32. With f16 or bf16 scales MLX rounds
/// both in that type; loft widens scale and bias to f32 first and never rounds in between. Allocates nothing.
void dequantize_run(const QuantWeight& w, int64_t row, int64_t first, int64_t count, float* out);

}  // namespace loft
