// Probe for tests/python/quantize_checkpoint_compare.py: probe_quantize_checkpoint SRC DST FORMAT [RECIPE [DTYPE]]; "-"
// for no recipe.
#include <fmt/format.h>

#include "core/error.h"
#include "model/quantize_checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    loft::QuantizeRequest request{.src = argv[1], .dst = argv[2], .format = {}, .recipe = {}, .dtype = {}};
    const std::optional<loft::QuantFormat> format = loft::format_from_name(argv[3]);
    if (!format) return 2;
    request.format = *format;
    if (argc > 4 && std::string_view(argv[4]) != "-") request.recipe = argv[4];
    if (argc > 5) request.dtype = loft::dtype_from_name(argv[5]);
    const loft::QuantizeReport report = loft::quantize_checkpoint(request);
    fmt::print("{:.4f}\n", report.bits_per_weight);
    for (const std::string& note : report.notes) fmt::print("{}\n", note);
  } catch (const loft::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return loft::exit_status(e.code());
  }
  return 0;
}
