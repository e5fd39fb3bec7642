// text: character classes, normal forms and lower case over the measured tables. What enters: code points or valid
// UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode_tables.h"

namespace loft {

/// Classes of one code point, as bits.
enum CharBits : uint16_t {
  kIsLetter = 1,  // \p{L}
  kIsMark = 2,    // \p{M}
  kIsNumber = 4,  // \p{N}
  kIsSpace = 8,   // \s
  kIsWord = 16,
  kIsNumeric = 32,
  kIsPunctuation = 64,
  kIsCombiningMark = 128,
  kHasLower = 256,
  kHasCanonical = 512,    // has a canonical decomposition
  kHasCompatible = 1024,  // has a compatibility decomposition of its own
  kMayReorder = 2048,     // combining class not 0
  kMayJoin = 4096,        // may compose with what stands before it
};

/// Bits of every code point in pages of 256, equal pages stored once.
class CharTable {
 public:
  static const CharTable& get();
  uint16_t bits(char32_t c) const { return pages_[page_of_[c >> 8]].bits[c & 255]; }

 private:
  struct Page {
    uint16_t bits[256];
    bool operator==(const Page&) const = default;
  };
  CharTable();
  uint16_t page_of_[0x1100];
  std::vector<Page> pages_;
};

inline bool is_space(char32_t c) {
  return (CharTable::get().bits(c) & kIsSpace) != 0;
}

enum class NormalForm { NFC, NFD, NFKC, NFKD };

/// Unicode normal forms (Unicode standard annex 15). Returns `valid` itself where nothing changes.
std::string normalize(std::string_view valid, NormalForm form);

/// Lower case character by character, without the final-sigma rule, as `tokenizers` does.
std::string to_lower(std::string_view valid);

}  // namespace loft
