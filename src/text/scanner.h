// text: hand-made scanners for the well-known pre-tokenizer regexes. What enters: valid UTF-8. What leaves: where the
// next piece ends. They are faster than a regex engine and follow the Unicode tables of the reference, not those of
// PCRE2.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace loft {

/// One family of regexes; see the table in scanner.cc for the pattern of each row.
struct Scanner {
  std::string_view name;
  std::string_view pattern;  // chosen when the pattern of the file is exactly this text
  unsigned letters;          // CharBits that count as letters
  int max_digits;            // digits to a piece at most
  size_t (*next)(const Scanner& scanner, std::string_view text, size_t at);  // end of the piece that starts at `at`
};

std::span<const Scanner> all_scanners();

/// The pattern of the ByteLevel pre-tokenizer.
const Scanner& gpt2_scanner();

/// Null: no scanner for this pattern.
const Scanner* find_scanner(std::string_view pattern);

}  // namespace loft
