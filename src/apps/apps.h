// apps: the subcommands, one a file. Each parses nothing itself (core/options did), calls functions below, and prints.
#pragma once
#include <span>

#include "core/options.h"

namespace loft {

std::span<const Subcommand> subcommands();  // apps/subcommands.cc: the one list

int run_bench(const ParsedArgs& args);
int run_compare(const ParsedArgs& args);
int run_completion(const ParsedArgs& args);
int run_convert(const ParsedArgs& args);
int run_devices(const ParsedArgs& args);
int run_guard(const ParsedArgs& args);
int run_inspect(const ParsedArgs& args);
int run_perplexity(const ParsedArgs& args);
int run_quantize(const ParsedArgs& args);
int run_routes(const ParsedArgs& args);
int run_run(const ParsedArgs& args);
int run_synth(const ParsedArgs& args);
int run_trace(const ParsedArgs& args);
int run_version(const ParsedArgs& args);

}  // namespace loft
