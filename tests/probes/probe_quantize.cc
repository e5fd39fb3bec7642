// Probe for tests/python/quantize_compare.py.
//   probe_quantize quantize FORMAT DTYPE N K IN OUT   IN: dense [N, K]; OUT: words, scales, biases, one after another
//   probe_quantize dequantize FORMAT DTYPE N K FACTOR IN OUT   IN: words, scales (DTYPE), biases; OUT: f32 [N, K]
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "core/file_map.h"
#include "quant/quantize.h"
#include "quant/reference.h"

namespace loft {
namespace {

void write(const char* path, const void* data, size_t size) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), std::streamsize(size));
}

QuantWeight weight_of(char** argv) {
  QuantWeight w;
  w.format = *format_from_name(argv[2]);
  w.n = std::atoll(argv[4]);
  w.k = std::atoll(argv[5]);
  const DType dtype = *dtype_from_name(argv[3]);
  w.scale_dtype = w.format.kind == QuantKind::Affine ? dtype : DType::U8;
  w.dense_dtype = dtype;
  return w;
}

int quantize(char** argv) {
  const QuantWeight target = weight_of(argv);
  const FileMap in = FileMap::open(argv[6]);
  QuantWeight dense{.format = {.kind = QuantKind::Dense, .bits = int(8 * dtype_bytes(target.dense_dtype)), .group = 0},
                    .n = target.n,
                    .k = target.k};
  dense.dense_dtype = target.dense_dtype;
  dense.words = in.bytes().data();
  std::vector<uint8_t> bytes(weight_bytes(target));
  uint8_t* scales = bytes.data() + size_t(target.n) * word_row_bytes(target);
  quantize_rows(
      dense, target.format,
      {.words = bytes.data(), .scales = scales, .biases = scales + size_t(target.n) * scale_row_bytes(target)});
  write(argv[7], bytes.data(), bytes.size());
  return 0;
}

int dequantize(char** argv) {
  QuantWeight w = weight_of(argv);
  const FileMap in = FileMap::open(argv[7]);
  const uint8_t* base = in.bytes().data();
  w.words = base;
  w.scales = base + size_t(w.n) * word_row_bytes(w);
  w.biases = static_cast<const uint8_t*>(w.scales) + size_t(w.n) * scale_row_bytes(w);
  w.global_scale = std::strtof(argv[6], nullptr);
  const std::vector<float> out = reference_dequantize(w);
  write(argv[8], out.data(), out.size() * 4);
  return 0;
}

}  // namespace
}  // namespace loft

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "quantize" && argc == 8) return loft::quantize(argv);
    if (command == "dequantize" && argc == 9) return loft::dequantize(argv);
  } catch (const loft::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 2;
}
