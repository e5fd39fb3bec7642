// quant: GGUF block types as data, read by the converter only; no run-time format. What enters: raw blocks of a tensor.
// What leaves: f32 values, or the same weights as MLX words, scales and biases. Source: the GGUF format as ggml writes
// it; read this first: Q4_1, whose block is a scale, an offset and 32 codes, is MLX affine with the nibbles in another
// order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/dtype.h"
#include "quant/format.h"

namespace loft {

/// What the converter does with a type. Affine: the same codes under a scale and a bias per 32 values, exact in f32.
/// Requantize: groups of 16 have no MLX form; the values get new 8-bit codes. Refuse: only the size is known.
enum class GgufTarget : uint8_t { Refuse, Dense, Affine, Requantize, Mxfp4 };

/// One block taken apart: unsigned codes in the order of the values, and scale and bias of each group of 32.
struct GgufGroups {
  uint8_t codes[256];
  float scale[8];
  float bias[8];
};

/// One row of the table of types.
struct GgufBlockType {
  uint32_t id;       // as in the file
  const char* name;  // as ggml spells it
  int values;        // weights a block
  int bytes;         // bytes a block
  GgufTarget target;
  QuantFormat format;                                         // of the target; Dense: bits is the width of the element
  void (*decode)(const uint8_t* block, float* out);           // out [values]; null when refused
  void (*take_apart)(const uint8_t* block, GgufGroups& out);  // Affine only, else null
};

std::span<const GgufBlockType> gguf_block_types();
const GgufBlockType* find_gguf_block_type(uint32_t id);  ///< null: no such type
const GgufBlockType* find_gguf_block_type(std::string_view name);

/// Decodes n_values (a multiple of the block) into out [n_values]. The type must have a decoder.
void decode_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values, float* out);

/// Where repack_gguf writes. All point to enough room for n_values.
struct RepackOut {
  uint8_t* words;                  // [n_values * bits / 8] bytes: MLX's little-endian bit stream
  uint8_t* scales;                 // [n_values / 32] of scale_dtype (mxfp4: one byte each)
  uint8_t* biases;                 // the same; null for mxfp4
  DType scale_dtype = DType::F16;  // F16 or F32; mxfp4: ignored
};

/// What the new weights are off by, against the decoded ones.
struct RepackError {
  double absolute = 0;  // largest difference
  double relative = 0;  // largest difference over the largest magnitude of its group of 32
};

/// Affine, Requantize and Mxfp4 types: writes the MLX form of n_values (a multiple of the block and of 32) and returns
/// how far it is from decode_gguf; {0, 0} where the mapping is exact. The weights must be finite (gguf_scan).
RepackError repack_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values, const RepackOut& out);

/// One look at the scales of all blocks, before anything is written.
struct GgufScan {
  std::optional<int64_t> not_finite;  // first value whose block holds an infinity or NaN
  bool fits_f16 = true;               // no scale or bias overflows f16
  bool exact_f16 = true;              // all of them are f16 numbers
};
GgufScan scan_gguf(const GgufBlockType& type, const uint8_t* blocks, int64_t n_values);

/// Appends codes (each below 2^bits) to a little-endian bit stream: n codes fill n * bits / 8 bytes. n is a multiple
/// of 8.
void pack_codes(const uint8_t* codes, int64_t n, int bits, uint8_t* out);

}  // namespace loft
