// text: the shape of the Unicode data in unicode_tables.cc, which tools/make_unicode_tables writes by measuring the
// Python package `tokenizers`: its parts follow different Unicode versions, and ids must equal its ids.
#pragma once
#include <cstdint>
#include <span>

namespace loft {

/// General categories in the order of the tables.
enum class Category : uint8_t {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Co
};

struct CategoryRun {
  char32_t first;    // from here to the next run
  uint8_t category;  // a Category
};
struct CodeRange {
  char32_t first, last;  // both ends included
  bool operator==(const CodeRange&) const = default;
};
struct DecompositionEntry {
  char32_t code_point;
  uint16_t offset, length;  // code points in the pool of the same name
};
struct CombiningClassRange {
  char32_t first, last;
  uint8_t combining_class;
};
struct CompositionEntry {
  char32_t first, second, composed;
};

extern const std::span<const CategoryRun> kCategoryRuns;  // of its regular expressions
extern const std::span<const CodeRange> kRegexWord, kRegexAlpha, kHan, kHiragana, kKatakana, kHangul;
extern const std::span<const CodeRange> kWord;           // of single_word and of the Whitespace pre-tokenizer
extern const std::span<const CodeRange> kNumeric;        // of the Digits pre-tokenizer
extern const std::span<const CodeRange> kPunctuation;    // of the Punctuation pre-tokenizer
extern const std::span<const CodeRange> kCombiningMark;  // of the StripAccents normalizer
extern const std::span<const char32_t> kLowerPool, kCanonicalPool, kCompatiblePool;
extern const std::span<const DecompositionEntry> kLower, kCanonical,
    kCompatible;  // kCompatible: where it differs from kCanonical
extern const std::span<const CombiningClassRange> kCombiningClasses;
extern const std::span<const CompositionEntry> kCompositions;  // sorted by (first, second)

}  // namespace loft
