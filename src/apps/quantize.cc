// apps: loft quantize: an MLX checkpoint to one of another weight format.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/format_options.h"
#include "apps/output.h"
#include "model/quantize_checkpoint.h"

namespace loft {

int run_quantize(const ParsedArgs& args) {
  const Options& o = args.options;
  const QuantizeRequest request{.src = args.positionals[0],
                                .dst = args.positionals[1],
                                .format = format_from_options(args),
                                .recipe = o.recipe == "none" ? "" : o.recipe,
                                .dtype = weight_dtype(o)};
  ProgressLine progress(o.quiet);
  const QuantizeReport report =
      quantize_checkpoint(request, [&](uint64_t done, uint64_t total) { progress.update("quantize", done, total); });
  progress.clear();
  if (o.quiet) return 0;
  std::string text;
  for (const FormatCount& f : report.formats) {
    text += fmt::format("{:<14} {:5} modules  {:12} weights  {:12} bytes\n", format_name(f.format), f.n_modules,
                        f.n_weights, f.bytes);
  }
  text += fmt::format("{:.3f} bits a weight, {} bytes written\n", report.bits_per_weight, report.bytes_written);
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  write_data(text);
  return 0;
}

}  // namespace loft
