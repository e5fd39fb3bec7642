// apps: the manual page loft(1), made from the tables of subcommands and options. `loft --help-man` prints it; the
// build writes it for `cmake --install`.
#include "apps/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace loft {
namespace {

struct ExitRow {
  const char* status;
  const char* meaning;
};
constexpr ExitRow kExitRows[] = {
    {"0", "done"},
    {"1", "a gate that was asked for says no"},
    {"2", "usage, an option, a variable or its value; inputs that cannot be compared"},
    {"3", "an input file is missing, corrupt or unsupported"},
    {"4", "not enough memory; need and have are told"},
    {"5", "a device failed, or a value is not finite"},
    {"6", "a gate was asked for and there was nothing to judge"},
    {"70", "a fault of loft itself"},
    {"75", "guard: not now"},
    {"126, 127", "guard: the command cannot be executed, or is not there"},
    {"129, 130, 143", "ended by SIGHUP, SIGINT or SIGTERM"},
};

/// Text as roff wants it: \ and - escaped, no line that begins with a control character.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(term), escaped(text));
}

std::string synopsis(const Subcommand& command) {
  std::string out = command.name;
  for (const Positional& p : command.positionals) {
    out += p.required ? fmt::format(" {}", p.name) : fmt::format(" [{}]", p.name);
  }
  return out;
}

std::string option_entry(const OptionRow& row, const Options& defaults) {
  std::string term = row.flag;
  if (row.also[0] != '\0') term += fmt::format(",{}", row.also);
  if (!row.is_on_off) term += fmt::format(" ({})", row.wanted);
  std::vector<const char*> takers;
  for (const Subcommand& c : subcommands()) {
    if ((row.where & c.scope) != 0) takers.push_back(c.name);
  }
  const std::string shown = row.show(defaults);
  return entry(term,
               fmt::format("{}. Default: {}. Taken by: {}.", row.help, shown.empty() ? "none" : shown,
                           takers.size() == subcommands().size() ? "all" : fmt::format("{}", fmt::join(takers, ", "))));
}

}  // namespace

std::string man_page() {
  std::string out =
      ".TH LOFT 1\n.SH NAME\nloft \\- runs MLX-format quantized language models\n.SH SYNOPSIS\n.B loft\n"
      "SUBCOMMAND [arguments] [options]\n.SH SUBCOMMANDS\n";
  for (const Subcommand& c : subcommands()) out += entry(synopsis(c), c.brief);
  out += ".SH OPTIONS\nA flag beats its variable LOFT_NAME, that beats the published alias, that beats the default.\n";
  const Options defaults;
  for (const OptionRow& row : option_rows()) out += option_entry(row, defaults);
  out += ".SH ENVIRONMENT\n";
  for (const OptionRow& row : option_rows()) {
    if (row.alias_variable[0] != '\0') out += entry(row.variable + ", " + row.alias_variable, "as " + row.flag);
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitRow& row : kExitRows) out += entry(row.status, row.meaning);
  return out;
}

}  // namespace loft
