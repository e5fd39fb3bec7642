// Probe: SRC DST [f16|f32] [DTYPE]. Converts and prints the report; the comparison convert_compare.py reads what was
// written.
#include <cstdio>
#include <string_view>

#include "core/error.h"
#include "model/convert.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loft::ConvertRequest request{.src = argv[1], .dst = argv[2], .scales = loft::ScaleDType::F16, .dtype = {}};
  if (argc > 3 && std::string_view(argv[3]) == "f32") request.scales = loft::ScaleDType::F32;
  if (argc > 4) request.dtype = loft::dtype_from_name(argv[4]);
  try {
    std::fputs(loft::describe(loft::convert_checkpoint(request)).c_str(), stdout);
  } catch (const loft::Error& e) {
    std::fprintf(stderr, "%s: %s\n", loft::code_name(e.code()), e.what());
    return loft::exit_status(e.code());
  }
  return 0;
}
