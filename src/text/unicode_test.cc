#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace loft {
namespace {

TEST(Unicode, NormalFormsOfWorkedExamples) {
  struct Row {
    std::u32string text, nfc, nfd, nfkc;
  };
  const Row rows[] = {
      {U"caf\u00e9", U"caf\u00e9", U"cafe\u0301", U"caf\u00e9"},
      {U"\u1e9b\u0323", U"\u1e9b\u0323", U"\u017f\u0323\u0307", U"\u1e69"},  // Unicode standard annex 15, figure 6
      {U"\ud55c\uae00", U"\ud55c\uae00", U"\u1112\u1161\u11ab\u1100\u1173\u11af", U"\ud55c\uae00"},
      {U"\u1112\u1161\u11ab", U"\ud55c", U"\u1112\u1161\u11ab", U"\ud55c"},
      {U"\ufb01", U"\ufb01", U"\ufb01", U"fi"},
      {U"a\u0315\u0300\u05ae\u0062", U"\u00e0\u05ae\u0315b", U"a\u05ae\u0300\u0315b", U"\u00e0\u05ae\u0315b"},
      {U"\u0958", U"\u0915\u093c", U"\u0915\u093c", U"\u0915\u093c"},  // excluded from composition
      {U"\u2126", U"\u03a9", U"\u03a9", U"\u03a9"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(to_code_points(normalize(to_utf8(row.text), NormalForm::NFC)), row.nfc);
    EXPECT_EQ(to_code_points(normalize(to_utf8(row.text), NormalForm::NFD)), row.nfd);
    EXPECT_EQ(to_code_points(normalize(to_utf8(row.text), NormalForm::NFKC)), row.nfkc);
  }
}

TEST(Unicode, ANormalFormOfANormalFormIsItself) {
  for (char32_t c = 1; c < 0x30000; c += 7) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = to_utf8(std::u32string{U'a', c, 0x0301, c});
    for (NormalForm form : {NormalForm::NFC, NormalForm::NFD, NormalForm::NFKC, NormalForm::NFKD}) {
      const std::string once = normalize(text, form);
      EXPECT_EQ(normalize(once, form), once) << uint32_t(c);
    }
  }
}

TEST(Unicode, LowerCaseGoesCharacterByCharacter) {
  EXPECT_EQ(to_lower("ABC \xC3\x89"), "abc \xC3\xA9");
  EXPECT_EQ(to_code_points(to_lower(to_utf8(U"\u0391\u03a3"))), U"\u03b1\u03c3");  // no final sigma
  EXPECT_EQ(to_code_points(to_lower(to_utf8(U"\u0130"))), U"i\u0307");
}

TEST(Unicode, ClassesOfSingleCharacters) {
  const CharTable& table = CharTable::get();
  EXPECT_EQ(table.bits('a') & (kIsLetter | kIsNumber | kIsSpace | kIsWord), kIsLetter | kIsWord);
  EXPECT_EQ(table.bits('7') & (kIsLetter | kIsNumber | kIsSpace), kIsNumber);
  EXPECT_TRUE(is_space(0x3000));
  EXPECT_TRUE(is_space(0x85));
  EXPECT_FALSE(is_space(0x200B));
  EXPECT_TRUE(table.bits(0x1C89) & kIsLetter);  // new in Unicode 16, which PCRE2 10.42 does not know
  EXPECT_TRUE(table.bits(0x10FFFF) == 0);
}

}  // namespace
}  // namespace loft
