// apps: loft completion: a script for the shell, made from the tables of subcommands and options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/apps.h"
#include "apps/output.h"
#include "core/error.h"

namespace loft {
namespace {

std::string flags_of(const Subcommand& command) {
  std::vector<std::string> flags = {"--help", "--help-all", "--print-options"};
  for (const OptionRow& row : option_rows()) {
    if ((row.where & command.scope & ~uint32_t(kDebug)) != 0) flags.push_back(row.flag);
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string bash_script() {
  std::vector<std::string> names;
  std::string cases;
  for (const Subcommand& c : subcommands()) {
    names.emplace_back(c.name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", c.name, flags_of(c));
  }
  return fmt::format(
      "_loft() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} words=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  case $current in\n"
      "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _loft loft\n",
      fmt::join(names, " "), cases);
}

}  // namespace

int run_completion(const ParsedArgs& args) {
  if (args.positionals[0] != "bash") fail(Code::BadRequest, "shell '{}': wanted bash", args.positionals[0]);
  write_data(bash_script());
  return 0;
}

}  // namespace loft
