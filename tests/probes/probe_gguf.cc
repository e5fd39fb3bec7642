// Probe: TYPE N. Reads N values' worth of blocks from stdin and writes, as f32: the decoded values; where the type has
// an MLX form, after them the values that words, scales (f32) and biases stand for. gguf_compare.py makes the blocks.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "quant/format.h"
#include "quant/gguf_blocks.h"

int main(int argc, char** argv) {
  const loft::GgufBlockType* type = argc == 3 ? loft::find_gguf_block_type(std::string_view(argv[1])) : nullptr;
  if (!type || !type->decode) return 2;
  const size_t n = size_t(std::atoll(argv[2]));
  std::vector<uint8_t> blocks(n / size_t(type->values) * size_t(type->bytes));
  if (std::fread(blocks.data(), 1, blocks.size(), stdin) != blocks.size()) return 2;
  std::vector<float> out(n);
  loft::decode_gguf(*type, blocks.data(), int64_t(n), out.data());
  std::fwrite(out.data(), 4, n, stdout);
  if (type->target == loft::GgufTarget::Dense) return 0;
  std::vector<uint8_t> words(n * size_t(type->format.bits) / 8);
  std::vector<uint8_t> scales(n / 32 * 4);
  std::vector<uint8_t> biases(scales.size());
  loft::repack_gguf(
      *type, blocks.data(), int64_t(n),
      {.words = words.data(), .scales = scales.data(), .biases = biases.data(), .scale_dtype = loft::DType::F32});
  const bool affine = type->format.kind == loft::QuantKind::Affine;
  const loft::QuantWeight w{.format = type->format,
                            .n = 1,
                            .k = int64_t(n),
                            .scale_dtype = affine ? loft::DType::F32 : loft::DType::U8,
                            .words = words.data(),
                            .scales = scales.data(),
                            .biases = affine ? biases.data() : nullptr};
  loft::dequantize_run(w, 0, 0, int64_t(n), out.data());
  std::fwrite(out.data(), 4, n, stdout);
  return 0;
}
