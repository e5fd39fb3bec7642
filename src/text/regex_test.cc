#include "text/regex.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "text/utf8.h"

namespace loft {
namespace {

std::vector<std::string> matches(const Pattern& pattern, std::string_view text) {
  std::vector<MatchRange> ranges;
  pattern.split(text, ranges);
  std::vector<std::string> found;
  for (const MatchRange& range : ranges) {
    if (range.is_match) found.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return found;
}

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  return matches(Pattern::regex(pattern, "t"), text);
}

using Strings = std::vector<std::string>;

// Each scanner against its own pattern in PCRE2, over characters that sit at the joints of the alternatives.
TEST(Regex, ScannersFindWhatTheirPatternsFind) {
  const std::u32string alphabet =
      U"aZs\u017ftSmMdDlLvVrReE''' \t\n\r\u00a0\u3000\u0085 "
      U"019\u0663\u00bd.,!-_\u0301\u0903\u4e00\u00e9\U0001f600\u1c89\u200d";
  std::mt19937 rng(7);
  for (const char* name : {"gpt2", "llama3", "qwen2", "qwen3.5"}) {
    const Scanner* scanner = nullptr;
    for (const Scanner& row : all_scanners()) scanner = row.name == name ? &row : scanner;
    ASSERT_NE(scanner, nullptr) << name;
    const Pattern fast = Pattern::regex(scanner->pattern, "t");
    const Pattern slow = Pattern::regex(scanner->pattern, "t", /*allow_scanner=*/false);
    for (int i = 0; i < 20000; ++i) {
      std::u32string text;
      for (size_t n = 1 + rng() % 12; n > 0; --n) text += alphabet[rng() % alphabet.size()];
      const std::string bytes = to_utf8(text);
      ASSERT_EQ(matches(fast, bytes), matches(slow, bytes)) << name << ": " << bytes;
    }
  }
}

TEST(Regex, RubySyntaxIsReadAsRubyReadsIt) {
  EXPECT_EQ(matches("^b$", "a\nb\nc"), Strings({"b"}));
  EXPECT_EQ(matches("a.b", "a\nb axb"), Strings({"axb"}));
  EXPECT_EQ(matches("(?m:a.b)", "a\nb"), Strings({"a\nb"}));
  EXPECT_EQ(matches("\\h+", "xyz1aF g"), Strings({"1aF"}));
  EXPECT_EQ(matches("x{,2}y", "xxxy"), Strings({"xxy"}));
  EXPECT_EQ(matches("(?:ab){2}+c", "ababababc"), Strings({"ababababc"}));  // {2}+ repeats, it is not possessive
  EXPECT_EQ(matches("a{b", "a{b"), Strings({"a{b"}));
  EXPECT_EQ(matches("[a-z&&[^aeiou]]+", "hello"), Strings({"h", "ll"}));
  EXPECT_EQ(matches("[[:punct:]]+", "a+b!"), Strings({"+", "!"}));
  EXPECT_EQ(matches("[^\\P{L}x]+", "axb1"), Strings({"a", "b"}));
  EXPECT_EQ(matches("\\p{^L}", "a1"), Strings({"1"}));
  EXPECT_EQ(matches("[\\x{41}\\u0042-]+", "xAB-"), Strings({"AB-"}));
  EXPECT_EQ(matches("(?i:k|S)", "k\u212aK\u017f"), Strings({"k", "\u212a", "K", "\u017f"}));
  EXPECT_EQ(matches("\\bof\\b", "of off of\u00e9 of"), Strings({"of", "of"}));
  EXPECT_EQ(matches("\\w", "a\u00b2"), Strings({"a", "\u00b2"}));
  EXPECT_EQ(matches("[\\w]", "a\u00b2"), Strings({"a"}));
  EXPECT_EQ(matches("[^\\W]", "a\u00b2"), Strings({"a"}));
  EXPECT_EQ(matches("[[:word:]]", "a\u00b2"), Strings({"a"}));
  EXPECT_EQ(matches("\\p{Punct}", "+!"), Strings({"!"}));
  EXPECT_EQ(matches("x*", "axb"), Strings({"", "x", ""}));
}

TEST(Regex, NewLettersOfUnicode16AreLetters) {
  EXPECT_EQ(matches("\\p{L}+", "\u1c89\u1c8a-"), Strings({"\u1c89\u1c8a"}));
  EXPECT_EQ(matches("\\p{Han}+", "\u4e00\u3042"), Strings({"\u4e00"}));
}

TEST(Regex, WhatIsNotKnownIsRefusedWithItsPlace) {
  const char* patterns[] = {"(",      ")",           "[a",       "\\p{Klingon}", "\\1",   "(?<n>a)",    "a{2}?",
                            "[b-a]",  "\\",          "(?x: a )", "\\k<n>",       "\\R",   "[[:nope:]]", "(?i",
                            "x(?i)y", "\\x{110000}", "\\u00",    "[\\p{L}",      "\\p{L", "(?i:\u00df)"};
  for (const char* pattern : patterns) {
    try {
      Pattern::regex(pattern, "here.Regex");
      if (std::string(pattern) != "\\u00") ADD_FAILURE() << pattern << " was taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("here.Regex"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(Pattern::regex("*a", "t"), Error);
  EXPECT_THROW(Pattern::regex(std::string(10000, 'a'), "t"), Error);
  EXPECT_THROW(Pattern::from_json(Json::parse(R"({"Other": 1})"), "t"), Error);
  EXPECT_THROW(Pattern::from_json(Json::parse(R"({"Regex": 1})"), "t"), Error);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "(?:";
  EXPECT_THROW(Pattern::regex(deep, "t"), Error);
}

// Seen to run on when the match limit is set to the largest number.
TEST(Regex, APatternThatBacktracksForeverEndsWithAnError) {
  EXPECT_THROW(matches("(?:a+)+$", std::string(40, 'a') + "!"), Error);
}

TEST(Regex, ReplaceOfAPlainStringKnowsNoRegex) {
  EXPECT_EQ(Pattern::literal(".").replace("a.b", "-"), "a-b");
  EXPECT_EQ(Pattern::literal("").replace("ab", "-"), "ab");
  EXPECT_EQ(Pattern::regex("\\s{2,}", "t").replace("a   b c", "_"), "a_b c");
}

}  // namespace
}  // namespace loft
