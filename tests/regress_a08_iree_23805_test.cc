// A8, iree-org/iree#23805: an added token with rstrip was only found when white space followed it.
// Seen to fail when AddedTokens::split passes over a token with rstrip that has no space behind it.
#include <gtest/gtest.h>

#include "tests/tokenizer_golden.h"

namespace loft {
namespace {

TEST(RegressA08, RstripTakesSpacesAndAsksForNone) {
  const std::vector<TokenizerGolden> goldens = read_tokenizer_goldens("tokenizer_a08.json");
  ASSERT_EQ(goldens.size(), 2u);
  for (const TokenizerGolden& golden : goldens) {
    for (const TokenizerGolden::Text& row : golden.texts) {
      EXPECT_EQ(golden.tokenizer.encode(row.text, false), row.ids) << golden.name << ": " << row.text;
    }
  }
  const int32_t user = goldens[0].tokenizer.token_id("<|user|>").value();
  EXPECT_EQ(goldens[0].tokenizer.encode("<|user|>Hello", false).front(), user);
  EXPECT_EQ(goldens[0].tokenizer.encode("<|user|>\nHello", false), goldens[0].tokenizer.encode("<|user|>Hello", false));
  EXPECT_NE(goldens[1].tokenizer.encode("<|user|>\nHello", false), goldens[1].tokenizer.encode("<|user|>Hello", false));
}

}  // namespace
}  // namespace loft
