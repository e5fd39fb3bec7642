// apps: the options that name a weight format, for the subcommands that write checkpoints.
#pragma once
#include <optional>

#include "core/dtype.h"
#include "core/options.h"
#include "quant/format.h"

namespace loft {

/// --mode, --bits and --group-size, with the mode's own bits and group where they are not given. Error: BadRequest for
/// a combination that MLX does not have.
QuantFormat format_from_options(const ParsedArgs& args);

/// --weight-dtype; nullopt for auto.
std::optional<DType> weight_dtype(const Options& options);

}  // namespace loft
