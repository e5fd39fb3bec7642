// apps: the program. Finds the subcommand, reads options, runs it; the only catch of an app is here.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "apps/apps.h"
#include "apps/man_page.h"
#include "core/error.h"
#include "core/log.h"

namespace loft {
namespace {

// A failed LOFT_CHECK aborts after its message; the program still ends with the documented status for our own mistakes.
void exit_on_abort(int) {
  _exit(exit_status(Code::Internal));
}

void print_usage(FILE* to) {
  fmt::print(to, "loft: runs MLX-format quantized language models\n\nloft SUBCOMMAND [arguments] [options]\n\n");
  for (const Subcommand& command : subcommands()) fmt::print(to, "  {:<12} {}\n", command.name, command.brief);
  fmt::print(to, "\nloft SUBCOMMAND --help tells more.\n");
}

const Subcommand& find_subcommand(const std::string& name) {
  std::vector<std::string> names;
  for (const Subcommand& command : subcommands()) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string near = nearest_name(name, names);
  fail(Code::BadRequest, "unknown subcommand '{}'{}; loft --help lists them", name,
       near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    print_usage(stderr);
    return exit_status(Code::BadRequest);
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    print_usage(stdout);
    return 0;
  }
  if (args[0] == "--help-markdown") {
    fmt::print("{}", options_markdown(subcommands()));
    return 0;
  }
  if (args[0] == "--help-man") {
    fmt::print("{}", man_page());
    return 0;
  }
  const Subcommand& command = find_subcommand(args[0] == "--version" ? "version" : args[0]);
  const ParsedArgs parsed = parse_args(command, std::span(args).subspan(1), process_environment());
  switch (parsed.ask) {
    case ParsedArgs::Ask::Help:
      fmt::print("{}", help_text(command, false));
      return 0;
    case ParsedArgs::Ask::HelpAll:
      fmt::print("{}", help_text(command, true));
      return 0;
    case ParsedArgs::Ask::PrintOptions:
      fmt::print("{}", options_text(parsed, command));
      return 0;
    case ParsedArgs::Ask::Run:
      break;
  }
  if (parsed.options.quiet) set_log_level(LogLevel::Error);
  if (parsed.options.verbose) set_log_level(LogLevel::Info);
  return command.run(parsed);
}

}  // namespace
}  // namespace loft

int main(int argc, char** argv) {
  std::signal(SIGABRT, loft::exit_on_abort);
  try {
    return loft::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const loft::Error& e) {
    fmt::print(stderr, "loft: {}\n", e.what());
    return loft::exit_status(e.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "loft: out of memory\n");
    return loft::exit_status(loft::Code::OutOfMemory);
  } catch (const std::exception& e) {
    fmt::print(stderr, "loft: internal error: {}\n", e.what());
    return loft::exit_status(loft::Code::Internal);
  }
}
