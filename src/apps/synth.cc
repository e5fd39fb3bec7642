// apps: loft synth: a seeded random checkpoint of a named shape, or of a config.json.
#include "model/synth.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/apps.h"
#include "apps/format_options.h"
#include "core/error.h"

namespace loft {
namespace {

/// A known name stays a name; a file's text becomes the config.
void set_shape(const std::string& shape, SynthRequest& request) {
  for (const SynthShape& s : synth_shapes()) {
    if (shape == s.name) {
      request.shape = shape;
      return;
    }
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(shape, ignored)) {
    fail(Code::BadRequest, "shape '{}': wanted one of {}, or a config.json file", shape, synth_shape_names());
  }
  std::ifstream in(shape, std::ios::binary);
  request.config_json.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace

int run_synth(const ParsedArgs& args) {
  SynthRequest request;
  set_shape(args.positionals[0], request);
  request.format = format_from_options(args);
  request.dtype = weight_dtype(args.options).value_or(DType::BF16);
  request.seed = args.options.seed.value_or(request.seed);
  synth_checkpoint(request, args.positionals[1]);
  if (!args.options.quiet) fmt::print(stderr, "{}: written, seed {}\n", args.positionals[1], request.seed);
  return 0;
}

}  // namespace loft
