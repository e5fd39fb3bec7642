// apps: loft convert: a GGUF file, or a folder of dense safetensors, to an MLX checkpoint folder.
#include "model/convert.h"

#include "apps/apps.h"
#include "apps/format_options.h"
#include "apps/output.h"

namespace loft {

int run_convert(const ParsedArgs& args) {
  const Options& o = args.options;
  const ConvertRequest request{.src = args.positionals[0],
                               .dst = args.positionals[1],
                               .scales = o.scales == "f32" ? ScaleDType::F32 : ScaleDType::F16,
                               .dtype = weight_dtype(o)};
  ProgressLine progress(o.quiet);
  const ConvertReport report =
      convert_checkpoint(request, [&](uint64_t done, uint64_t total) { progress.update("convert", done, total); });
  progress.clear();
  if (!o.quiet) write_data(describe(report));
  return 0;
}

}  // namespace loft
