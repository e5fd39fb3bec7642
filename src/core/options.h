// core: options. options.def is the table; struct Options, flags, LOFT_* variables, help and docs are its expansions.
// What enters: argv and the environment. What leaves: values, each with its source, or an Error that names the near
// miss.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

// ---- Types of options. Each has a Value, a text for "wanted ...", and parse(text, value) -> fits or not.
// -------------

struct OnOff {
  using Value = bool;
  static std::string wanted() { return "on or off"; }
  static bool parse(std::string_view text, Value& value);
};
struct Text {
  using Value = std::string;
  static std::string wanted() { return "text"; }
  static bool parse(std::string_view text, Value& value);
};
struct TextList {  // each use of the flag adds one; the variable gives one
  using Value = std::vector<std::string>;
  static std::string wanted() { return "text"; }
  static bool parse(std::string_view text, Value& value);
};
/// A whole number in [lo, hi], base 10, the whole string.
template <uint64_t lo, uint64_t hi>
struct Whole {
  using Value = uint64_t;
  static std::string wanted() { return "a whole number in " + std::to_string(lo) + ".." + std::to_string(hi); }
  static bool parse(std::string_view text, Value& value);
};
bool parse_whole(std::string_view text, uint64_t lo, uint64_t hi, uint64_t& value);
template <uint64_t lo, uint64_t hi>
bool Whole<lo, hi>::parse(std::string_view text, Value& value) {
  return parse_whole(text, lo, hi, value);
}
using Rows = Whole<1, 2147483647>;
struct RowsOrAll {  // -1: all
  using Value = int64_t;
  static std::string wanted() { return "-1 for all, or " + Rows::wanted(); }
  static bool parse(std::string_view text, Value& value);
};
using Entries = Whole<0, 2147483647>;
using Count = Whole<0, 18446744073709551615ull>;
using SampleMs = Whole<20, 10000>;
struct Bytes {  // K, M, G are powers of 1024
  using Value = uint64_t;
  static std::string wanted() { return "a number of bytes, or one with K, M or G"; }
  static bool parse(std::string_view text, Value& value);
};
struct AnyReal {
  using Value = double;
  static std::string wanted() { return "a finite number"; }
  static bool parse(std::string_view text, Value& value);
};
struct Real {
  using Value = double;
  static std::string wanted() { return "a finite number, 0 or more"; }
  static bool parse(std::string_view text, Value& value);
};
struct Probability {
  using Value = double;
  static std::string wanted() { return "a number in 0..1"; }
  static bool parse(std::string_view text, Value& value);
};
template <class Type>
struct OrUnset {
  using Value = std::optional<typename Type::Value>;
  static std::string wanted() { return Type::wanted(); }
  static bool parse(std::string_view text, Value& value) {
    typename Type::Value parsed{};
    if (!Type::parse(text, parsed)) return false;
    value = parsed;
    return true;
  }
};
using OptionalText = OrUnset<Text>;
using OptionalRows = OrUnset<Rows>;
using OptionalCount = OrUnset<Count>;
using OptionalBytes = OrUnset<Bytes>;
using OptionalReal = OrUnset<Real>;
using OptionalProbability = OrUnset<Probability>;
using TopCount = Whole<2, 1024>;

/// Text known to the compiler, so that the words of a Choice can stand in its row.
template <size_t n>
struct FixedText {
  char chars[n];
  constexpr FixedText(const char (&text)[n]) { std::copy_n(text, n, chars); }  // NOLINT: a literal is given
};
/// One of the words in "a|b|c".
template <FixedText words>
struct Choice {
  using Value = std::string;
  static std::string wanted() { return std::string("one of ") + words.chars; }
  static bool parse(std::string_view text, Value& value) {
    const std::string_view all = words.chars;
    for (size_t begin = 0; begin <= all.size();) {
      const size_t end = std::min(all.find('|', begin), all.size());
      if (all.substr(begin, end - begin) == text) {
        value = text;
        return true;
      }
      begin = end + 1;
    }
    return false;
  }
};

// ---- Where an option is taken: one bit a subcommand.
// ------------------------------------------------------------------

enum Scope : uint32_t {
  kRun = 1u << 0,
  kServe = 1u << 1,
  kBench = 1u << 2,
  kTrace = 1u << 3,
  kPerplexity = 1u << 4,
  kConvert = 1u << 5,
  kQuantize = 1u << 6,
  kInspect = 1u << 7,
  kRoutes = 1u << 8,
  kSynth = 1u << 9,
  kDevices = 1u << 10,
  kVersion = 1u << 11,
  kCompletion = 1u << 12,
  kCompare = 1u << 13,
  kGuard = 1u << 14,
  kDebug = 1u << 31,  // shown by --help-all only
};
inline constexpr uint32_t kModel = kRun | kServe | kBench | kTrace | kPerplexity;
inline constexpr uint32_t kGenerate = kRun | kServe;  // what draws tokens
inline constexpr uint32_t kAll = ~uint32_t(kDebug);

// ---- The values and their sources.
// ------------------------------------------------------------------------------------

struct Options {
#define OPT(type, name, default_value, where, also, alias, help) type::Value name = default_value;
#include "core/options.def"
#undef OPT
};

enum class Source : uint8_t { Default, Alias, Env, Flag };
const char* source_name(Source source);

/// How the text of an alias variable (a name published elsewhere) is read. Unset or empty means the default. Lenient
/// and ZeroOffOneForce: anything else than a good value gives one warning and the default, since the published programs
/// do not stop on one. Only1IsOn: "1" is on, all else off. Begins1: on when the first character is 1. Strict: as the
/// LOFT_* variable, a bad value stops the program.
enum class AliasRule : uint8_t { None, Lenient, ZeroOffOneForce, Only1IsOn, Begins1, Strict };

/// One row of the table as data.
struct OptionRow {
  const char* name;            // "prefill_chunk"
  std::string flag;            // "--prefill-chunk"
  std::string variable;        // "LOFT_PREFILL_CHUNK"
  const char* also;            // "-n,--predict"
  const char* alias_variable;  // "" for none
  AliasRule alias_rule;
  uint32_t where;
  const char* help;
  std::string wanted;
  bool is_on_off;
  bool is_list;
  bool (*set)(Options&, std::string_view text);
  std::string (*show)(const Options&);
  std::vector<std::string> (*texts)(const Options&);  // as show, one a value of a list
};
std::span<const OptionRow> option_rows();

/// A subcommand as data; apps/main.cc lists them.
struct Positional {
  const char* name;
  const char* help;
  bool required;
  bool is_rest = false;  // every word after "--", verbatim; stands last in its list
  bool repeats = false;  // the last one only: any number may follow
};
struct ParsedArgs;
struct Subcommand {
  const char* name;
  uint32_t scope;
  const char* brief;
  std::span<const Positional> positionals;
  const char* notes;  // examples and the keys of --json output; may be empty
  int (*run)(const ParsedArgs&);
};

struct ParsedArgs {
  Options options;
  std::vector<Source> sources;           // one an option row
  std::vector<std::string> positionals;  // as many as required, at most as many as listed
  std::vector<std::string> rest;         // the words of a positional that is_rest
  enum class Ask : uint8_t { Run, Help, HelpAll, PrintOptions } ask = Ask::Run;
  bool has(std::string_view option_name) const;  // given by flag, variable or alias
};

/// Reads args (without program and subcommand) and the environment ("NAME=VALUE" strings).
/// Errors: BadRequest naming option or variable, value, what is wanted and the nearest known name.
ParsedArgs parse_args(const Subcommand& command, std::span<const std::string> args,
                      std::span<const std::string> environment);
std::vector<std::string> process_environment();
/// The flags that were given, in the order of the table: what another process needs to be told so that it parses the
/// same values.
std::vector<std::string> given_flags(const ParsedArgs& parsed, const std::function<bool(const OptionRow&)>& wanted);

std::string help_text(const Subcommand& command, bool with_debug);
std::string options_text(const ParsedArgs& parsed, const Subcommand& command);  ///< --print-options: value and source
std::string options_markdown(std::span<const Subcommand> commands);             ///< docs/options.md

/// The known name with the smallest edit distance, when that is small enough to be a slip; else empty.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace loft
