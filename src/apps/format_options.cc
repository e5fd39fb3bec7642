// apps: a weight format from options.
#include "apps/format_options.h"

#include "core/error.h"

namespace loft {

std::optional<DType> weight_dtype(const Options& options) {
  return options.weight_dtype == "auto" ? std::nullopt : dtype_from_name(options.weight_dtype);
}

QuantFormat format_from_options(const ParsedArgs& args) {
  const Options& o = args.options;
  if (o.mode == "dense") {
    const DType dtype = weight_dtype(o).value_or(DType::BF16);
    return {.kind = QuantKind::Dense, .bits = int(8 * dtype_bytes(dtype)), .group = 0};
  }
  const FormatRow& row = format_row(*quant_kind_from_mode(o.mode));
  const QuantFormat format{.kind = row.kind,
                           .bits = args.has("bits") ? int(o.bits) : row.default_bits,
                           .group = int(o.group_size.value_or(uint64_t(row.default_group)))};
  if (!is_valid(format)) {
    fail(Code::BadRequest, "mode {} does not have {} bits with groups of {}; its default is {} bits, group {}", o.mode,
         format.bits, format.group, row.default_bits, row.default_group);
  }
  return format;
}

}  // namespace loft
