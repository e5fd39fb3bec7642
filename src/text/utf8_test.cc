#include "text/utf8.h"

#include <gtest/gtest.h>

namespace loft {
namespace {

const std::string kReplaced = "\xEF\xBF\xBD";

// The rows are what Python's bytes.decode("utf-8", "replace") gives.
TEST(Utf8, BrokenBytesAreReplacedAsPythonDoes) {
  const std::pair<std::string, std::string> rows[] = {
      {"plain", "plain"},
      {"\xC3\xA9\xF0\x9F\x98\x80", "\xC3\xA9\xF0\x9F\x98\x80"},
      {"a\x80z", "a" + kReplaced + "z"},
      {"\xE2\x82z", kReplaced + "z"},
      {"\xE2\x82", kReplaced},
      {"\xF0\x9F\x98", kReplaced},
      {"\xF0\x9F\xE2\x82\xAC", kReplaced + "\xE2\x82\xAC"},
      {"\xC0\xAF", kReplaced + kReplaced},
      {"\xED\xA0\x80", kReplaced + kReplaced + kReplaced},
      {"\xF4\x90\x80\x80", kReplaced + kReplaced + kReplaced + kReplaced},
      {"\xE0\x9F\xBF", kReplaced + kReplaced + kReplaced},
  };
  for (const auto& [bytes, wanted] : rows) EXPECT_EQ(replace_invalid_utf8(bytes), wanted);
}

TEST(Utf8, TheValidStartEndsBeforeTheFirstBrokenCharacter) {
  EXPECT_EQ(valid_utf8_length("plain"), 5u);
  EXPECT_EQ(valid_utf8_length("\xC3\xA9z\xFFz"), 3u);
  EXPECT_EQ(valid_utf8_length("ab\xE2\x82"), 2u);
}

TEST(Utf8, PiecesGiveWhatTheWholeGives) {
  std::string bytes;
  unsigned state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1103515245u + 12345u;
    // Mostly lead and following bytes, so that characters complete and break often.
    bytes += static_cast<char>(
        static_cast<unsigned char>((state >> 16) % 5 == 0 ? (state >> 20) & 0x7F : 0x80 | ((state >> 20) & 0x7F)));
  }
  std::string streamed;
  Utf8Replacer replacer;
  for (size_t at = 0; at < bytes.size(); at += 1 + at % 3)
    replacer.push(std::string_view(bytes).substr(at, 1 + at % 3), streamed);
  replacer.finish(streamed);
  EXPECT_EQ(streamed, replace_invalid_utf8(bytes));
  EXPECT_TRUE(is_valid_utf8(streamed));
}

TEST(Utf8, CodePointsGoThereAndBack) {
  const std::u32string all = U"a\u00e9\u0800\uffff\U00010000\U0010ffff";
  const std::string text = to_utf8(all);
  EXPECT_EQ(to_code_points(text), all);
  size_t at = text.size();
  for (size_t i = all.size(); i-- > 0;) EXPECT_EQ(previous_code_point(text, at), all[i]);
  EXPECT_EQ(at, 0u);
}

}  // namespace
}  // namespace loft
