// text: patterns of tokenizer.json, a plain string or a regular expression in the dialect of Oniguruma (Ruby syntax)
// with the reference's Unicode classes. What enters: the pattern and valid UTF-8. What leaves: where it matches.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/byte_classes.h"
#include "text/scanner.h"

namespace loft {

struct MatchRange {
  size_t begin, end;
  bool is_match;
};

/// A pattern: {"String": ..} or {"Regex": ..}. Const after load, safe in several threads at once.
class Pattern {
 public:
  /// Errors: Corrupt (shape, syntax), Unsupported (what the rewriting to PCRE2 does not know), both naming `where`.
  static Pattern from_json(const Json& json, std::string_view where);
  static Pattern literal(std::string text);
  static Pattern regex(std::string_view pattern, std::string_view where, bool allow_scanner = true);

  /// Ranges that cover the text in order, matches and what lies between them.
  /// Errors: Unsupported when the regex needs more steps than the match limit on this text.
  void split(std::string_view text, std::vector<MatchRange>& ranges) const;
  std::string replace(std::string_view text, std::string_view content) const;
  bool is_literal() const { return !regex_ && !scanner_; }
  const std::string& text() const { return text_; }

 private:
  struct Compiled;
  void split_regex(std::string_view text, std::vector<MatchRange>& ranges) const;
  std::string text_;
  const Scanner* scanner_ = nullptr;
  std::shared_ptr<const Compiled> regex_;
};

/// A pattern for PCRE2 over the bytes that `classes` makes of a text.
struct ByteRegex {
  std::string pattern;
  ByteClasses classes;
};
/// Errors: Unsupported, naming what in the pattern is not known.
ByteRegex rewrite_for_pcre2(std::string_view pattern, std::string_view where);

}  // namespace loft
