#include "core/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "core/log.h"

namespace loft {
namespace {

// ---- Text of a value, for --print-options and the docs. ----
std::string shown(bool v) {
  return v ? "on" : "off";
}
std::string shown(const std::string& v) {
  return v;
}
std::string shown(uint64_t v) {
  return std::to_string(v);
}
std::string shown(int64_t v) {
  return std::to_string(v);
}
std::string shown(double v) {
  return fmt::format("{}", v);
}
std::string shown(const std::vector<std::string>& v) {
  return fmt::format("{}", fmt::join(v, ", "));
}
template <class T>
std::string shown(const std::optional<T>& v) {
  return v ? shown(*v) : "unset";
}

template <class T>
std::vector<std::string> texts_of(const T& v) {
  return {shown(v)};
}
std::vector<std::string> texts_of(const std::vector<std::string>& v) {
  return v;
}

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}
std::string upper(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return out;
}

struct Alias {
  const char* variable;
  AliasRule rule;
};

std::vector<OptionRow> make_rows() {
#define NO_ALIAS        \
  Alias {               \
    "", AliasRule::None \
  }
#define ALIAS(variable, rule) \
  Alias {                     \
    variable, AliasRule::rule \
  }
#define OPT(type, field, default_value, where, also, alias, help)                         \
  OptionRow{#field,                                                                       \
            "--" + dashed(#field),                                                        \
            "LOFT_" + upper(#field),                                                      \
            also,                                                                         \
            (alias).variable,                                                             \
            (alias).rule,                                                                 \
            uint32_t(where),                                                              \
            help,                                                                         \
            type::wanted(),                                                               \
            std::is_same_v<type, OnOff>,                                                  \
            std::is_same_v<type, TextList>,                                               \
            [](Options& o, std::string_view text) { return type::parse(text, o.field); }, \
            [](const Options& o) { return shown(o.field); },                              \
            [](const Options& o) { return texts_of(o.field); }},
  return {
#include "core/options.def"
  };
#undef OPT
}

std::vector<std::string> flags_of(const OptionRow& row) {
  std::vector<std::string> flags = {row.flag};
  for (std::string_view rest = row.also; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    flags.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return flags;
}

bool applies(const OptionRow& row, const Subcommand& command) {
  return (row.where & command.scope) != 0;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string hint(std::string_view name, std::span<const std::string> known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

bool is_long_short(std::string_view flag) {
  return flag.size() > 2 && flag[0] == '-' && flag[1] != '-';
}

// CLI11 reads -pg as -p g; where the table has such a flag it means its row.
std::string spelled_out(const std::string& arg, const std::map<std::string, std::string>& long_shorts) {
  const size_t equals = arg.find('=');
  const auto found = long_shorts.find(arg.substr(0, equals));
  if (found == long_shorts.end()) return arg;
  return equals == std::string::npos ? found->second : found->second + arg.substr(equals);
}

// CLI11 splits argv; every value is read by our own parsers so that a flag and a variable obey the same rule.
struct SplitArgs {
  std::map<const OptionRow*, std::vector<std::string>> flags;
  std::vector<std::string> positionals, rest;
  ParsedArgs::Ask ask = ParsedArgs::Ask::Run;
};

SplitArgs split(const Subcommand& command, std::span<const std::string> args) {
  SplitArgs out;
  if (!command.positionals.empty() && command.positionals.back().is_rest) {
    // The words of another program are none of ours, so CLI11 never sees them.
    const auto bar = std::find(args.begin(), args.end(), "--");
    if (bar != args.end()) out.rest.assign(bar + 1, args.end());
    args = args.first(size_t(bar - args.begin()));
  }
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false, help_all = false, print_options = false;
  app.add_flag("--help,-h", help);
  app.add_flag("--help-all", help_all);
  app.add_flag("--print-options", print_options);
  std::vector<std::string> known = {"--help", "--help-all", "--print-options"};
  std::map<const OptionRow*, std::vector<std::string>> values;
  std::map<std::string, std::string> long_shorts;
  for (const OptionRow& row : option_rows()) {
    if (!applies(row, command)) continue;
    std::vector<std::string> flags = flags_of(row);
    known.insert(known.end(), flags.begin(), flags.end());
    for (const std::string& flag : flags) {
      if (is_long_short(flag)) long_shorts[flag] = row.flag;
    }
    std::erase_if(flags, is_long_short);
    const std::string names = fmt::format("{}", fmt::join(flags, ","));
    std::vector<std::string>& target = values[&row];
    if (row.is_on_off) {
      app.add_flag(names, target)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      // One value a use, and the word behind it is a positional; `each` sees every use, so that lists grow.
      app.add_option(names)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->each([&target](const std::string& text) { target.push_back(text); });
    }
  }
  try {
    std::vector<std::string> reversed;
    for (auto arg = args.rbegin(); arg != args.rend(); ++arg) reversed.push_back(spelled_out(*arg, long_shorts));
    app.parse(reversed);
  } catch (const CLI::Error& e) {
    fail(Code::BadRequest, "{}", e.what());
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.size() > 1 && extra[0] == '-') {
      const std::string flag = extra.substr(0, extra.find('='));
      fail(Code::BadRequest, "unknown option {} of loft {}{}", flag, command.name, hint(flag, known));
    }
    out.positionals.push_back(extra);
  }
  for (auto& [row, texts] : values) {
    if (!texts.empty()) out.flags[row] = texts;
  }
  if (print_options) out.ask = ParsedArgs::Ask::PrintOptions;
  if (help) out.ask = ParsedArgs::Ask::Help;
  if (help_all) out.ask = ParsedArgs::Ask::HelpAll;
  return out;
}

// Published names that loft knows to belong to the same family; one that no row implements is told, not refused.
constexpr std::string_view kAliasPrefixes[] = {"MLX_ROCM_", "ROCM_GPU_GUARD_"};

std::map<std::string, std::string> read_environment(std::span<const std::string> environment) {
  std::set<std::string> known, aliases;
  for (const OptionRow& row : option_rows()) {
    known.insert(row.variable);
    aliases.insert(row.alias_variable);
  }
  std::map<std::string, std::string> out;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    if (name.starts_with("LOFT_") && !known.count(name)) {
      const std::vector<std::string> names(known.begin(), known.end());
      fail(Code::BadRequest, "unknown variable {}{}", name, hint(name, names));
    }
    for (std::string_view prefix : kAliasPrefixes) {
      if (name.starts_with(prefix) && !aliases.count(name)) log_warn("{}: loft has no such setting; not used", name);
    }
    if (known.count(name) || aliases.count(name)) out[name] = entry.substr(equals + 1);
  }
  return out;
}

bool set_from_alias(const OptionRow& row, const std::string& text, Options& options) {
  switch (row.alias_rule) {
    case AliasRule::Only1IsOn:
      return row.set(options, text == "1" ? "on" : "off");
    case AliasRule::Begins1:
      return row.set(options, text[0] == '1' ? "on" : "off");
    case AliasRule::ZeroOffOneForce:
      return (text == "0" || text == "1") && row.set(options, text == "1" ? "force" : "off");
    case AliasRule::Lenient:
    case AliasRule::Strict:
    case AliasRule::None:
      break;
  }
  return row.set(options, text);
}

// A bar would end the cell of a Markdown table.
std::string table_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

// What an alias accepts, where that differs from the option's own words.
std::string alias_wanted(const OptionRow& row) {
  return row.alias_rule == AliasRule::ZeroOffOneForce ? "0 or 1" : row.wanted;
}

}  // namespace

bool OnOff::parse(std::string_view text, Value& value) {
  const bool on = text == "on" || text == "1" || text == "true";
  const bool off = text == "off" || text == "0" || text == "false";
  if (on || off) value = on;
  return on || off;
}

bool Text::parse(std::string_view text, Value& value) {
  value = text;
  return true;
}

bool TextList::parse(std::string_view text, Value& value) {
  value.emplace_back(text);
  return true;
}

bool parse_whole(std::string_view text, uint64_t lo, uint64_t hi, uint64_t& value) {
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < lo || parsed > hi) return false;
  value = parsed;
  return true;
}

bool RowsOrAll::parse(std::string_view text, Value& value) {
  uint64_t rows = 0;
  if (text != "-1" && !Rows::parse(text, rows)) return false;
  value = text == "-1" ? -1 : int64_t(rows);
  return true;
}

bool Bytes::parse(std::string_view text, Value& value) {
  uint64_t unit = 1;
  if (!text.empty()) {
    const size_t which = std::string_view("KMG").find(char(std::toupper(static_cast<unsigned char>(text.back()))));
    if (which != std::string_view::npos) {
      unit = uint64_t(1) << (10 * (which + 1));
      text.remove_suffix(1);
    }
  }
  uint64_t count = 0;
  if (!parse_whole(text, 0, UINT64_MAX / unit, count)) return false;
  value = count * unit;
  return true;
}

bool AnyReal::parse(std::string_view text, Value& value) {
  double parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(parsed)) return false;
  value = parsed;
  return true;
}

bool Real::parse(std::string_view text, Value& value) {
  double parsed = 0;
  if (!AnyReal::parse(text, parsed) || parsed < 0) return false;
  value = parsed;
  return true;
}

bool Probability::parse(std::string_view text, Value& value) {
  double parsed = 0;
  if (!AnyReal::parse(text, parsed) || parsed < 0 || parsed > 1) return false;
  value = parsed;
  return true;
}

const char* source_name(Source source) {
  constexpr const char* kNames[] = {"default", "alias", "variable", "flag"};
  return kNames[int(source)];
}

std::span<const OptionRow> option_rows() {
  static const std::vector<OptionRow> rows = make_rows();
  return rows;
}

bool ParsedArgs::has(std::string_view option_name) const {
  const auto rows = option_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == option_name) return sources[i] != Source::Default;
  }
  fail(Code::Internal, "no option named {}", option_name);
}

ParsedArgs parse_args(const Subcommand& command, std::span<const std::string> args,
                      std::span<const std::string> environment) {
  const SplitArgs split_args = split(command, args);
  const std::map<std::string, std::string> variables = read_environment(environment);
  ParsedArgs parsed;
  parsed.ask = split_args.ask;
  parsed.positionals = split_args.positionals;
  parsed.rest = split_args.rest;
  for (const OptionRow& row : option_rows()) {
    Source source = Source::Default;
    const auto flag = split_args.flags.find(&row);
    const auto variable = variables.find(row.variable);
    const auto alias = variables.find(row.alias_variable);
    if (flag != split_args.flags.end()) {
      source = Source::Flag;
      for (const std::string& text : flag->second) {
        if (!row.set(parsed.options, text)) {
          fail(Code::BadRequest, "{}: found '{}', wanted {}", row.flag, text, row.wanted);
        }
      }
    } else if (variable != variables.end()) {
      source = Source::Env;
      if (!row.set(parsed.options, variable->second)) {
        fail(Code::BadRequest, "{}: found '{}', wanted {}", row.variable, variable->second, row.wanted);
      }
    } else if (alias != variables.end() && !alias->second.empty()) {
      if (set_from_alias(row, alias->second, parsed.options)) {
        source = Source::Alias;
      } else if (row.alias_rule == AliasRule::Strict) {
        fail(Code::BadRequest, "{}: found '{}', wanted {}", row.alias_variable, alias->second, row.wanted);
      } else {
        log_warn("{}: found '{}', wanted {}; used: {}", row.alias_variable, alias->second, alias_wanted(row),
                 row.show(parsed.options));
      }
    }
    parsed.sources.push_back(source);
  }
  if (parsed.ask != ParsedArgs::Ask::Run) return parsed;
  size_t n_required = 0, n_listed = 0;
  for (const Positional& p : command.positionals) {
    n_required += p.required ? 1 : 0;
    n_listed += p.is_rest ? 0 : 1;
  }
  if (parsed.positionals.size() < n_required) {
    fail(Code::BadRequest, "loft {}: {} is missing; see loft {} --help", command.name,
         command.positionals[parsed.positionals.size()].name, command.name);
  }
  const bool repeats = !command.positionals.empty() && command.positionals.back().repeats;
  if (parsed.positionals.size() > n_listed && !repeats) {
    fail(Code::BadRequest, "loft {}: '{}' is one argument too many; see loft {} --help", command.name,
         parsed.positionals[n_listed], command.name);
  }
  return parsed;
}

std::vector<std::string> process_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry && *entry; ++entry) out.emplace_back(*entry);
  return out;
}

std::vector<std::string> given_flags(const ParsedArgs& parsed, const std::function<bool(const OptionRow&)>& wanted) {
  std::vector<std::string> out;
  const auto rows = option_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (parsed.sources[i] != Source::Flag || !wanted(rows[i])) continue;
    for (const std::string& text : rows[i].texts(parsed.options)) out.push_back(rows[i].flag + "=" + text);
  }
  return out;
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string help_text(const Subcommand& command, bool with_debug) {
  std::string out = fmt::format("loft {}", command.name);
  for (const Positional& p : command.positionals) {
    out += p.required ? fmt::format(" {}", p.name) : fmt::format(" [{}]", p.name);
  }
  out += fmt::format(" [options]\n{}\n", command.brief);
  for (const Positional& p : command.positionals) out += fmt::format("  {:<28} {}\n", p.name, p.help);
  out += "\nOptions (each also as a variable: --top-k is LOFT_TOP_K)\n";
  const Options defaults;
  for (const OptionRow& row : option_rows()) {
    if (!applies(row, command) || ((row.where & kDebug) && !with_debug)) continue;
    std::string names = fmt::format("{}", fmt::join(flags_of(row), ", "));
    if (!row.is_on_off) names += " " + upper(row.name);
    const std::string shown_default = row.show(defaults);
    const bool tell = !shown_default.empty() && shown_default != "unset" && !row.is_on_off;
    out += fmt::format("  {:<28} {}{}\n", names, row.help, tell ? fmt::format(" [{}]", shown_default) : "");
  }
  out += fmt::format("  {:<28} {}\n", "--print-options", "print every value and where it came from, then exit");
  out += fmt::format("  {:<28} {}\n", "--help, --help-all", "this text; with the options for debugging");
  if (command.notes[0] != '\0') out += fmt::format("\n{}\n", command.notes);
  return out;
}

std::string options_text(const ParsedArgs& parsed, const Subcommand& command) {
  std::string out;
  const auto rows = option_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!applies(rows[i], command)) continue;
    out += fmt::format("{:<22} {:<16} {}\n", dashed(rows[i].name), rows[i].show(parsed.options),
                       source_name(parsed.sources[i]));
  }
  return out;
}

std::string options_markdown(std::span<const Subcommand> commands) {
  std::string out =
      "# Options\n\nGenerated by `loft --help-markdown`; do not edit. A flag beats its `LOFT_*` variable, that beats "
      "the "
      "published alias,\nthat beats the default. A bad value or an unknown name stops the program with exit status "
      "2.\n\n"
      "| flag | also | variable | alias | default | value | taken by | what it does "
      "|\n|---|---|---|---|---|---|---|---|\n";
  const Options defaults;
  for (const OptionRow& row : option_rows()) {
    std::vector<std::string> takers;
    for (const Subcommand& command : commands) {
      if (applies(row, command)) takers.emplace_back(command.name);
    }
    out += fmt::format("| `{}` | {} | `{}` | {} | {} | {} | {} | {} |\n", row.flag, row.also, row.variable,
                       row.alias_variable, table_cell(row.show(defaults)), table_cell(row.wanted),
                       (row.where & kAll) == kAll ? "all" : fmt::format("{}", fmt::join(takers, ", ")), row.help);
  }
  return out;
}

}  // namespace loft
