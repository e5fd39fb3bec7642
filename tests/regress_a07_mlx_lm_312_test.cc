// A7, ml-explore/mlx-lm#312: a stream gave U+FFFD for characters that were not complete yet.
// Seen to fail when ByteLevel hands on the bytes of each token at once (Utf8Replacer finished after every push).
#include <gtest/gtest.h>

#include "tests/tokenizer_golden.h"
#include "text/stream_decoder.h"

namespace loft {
namespace {

TEST(RegressA07, EveryStartOfAStreamIsAStartOfTheWholeText) {
  for (const TokenizerGolden& golden : read_tokenizer_goldens("tokenizer_a07.json")) {
    for (const TokenizerGolden::Text& row : golden.texts) {
      SCOPED_TRACE(golden.name + ": " + row.text);
      EXPECT_EQ(golden.tokenizer.encode(row.text, false), row.ids);
      const std::string whole = golden.tokenizer.decode(row.ids, false);
      EXPECT_EQ(whole, row.decoded);
      StreamDecoder stream(golden.tokenizer, false);
      std::string streamed;
      for (int32_t id : row.ids) {
        streamed += stream.push(id);
        EXPECT_TRUE(whole.starts_with(streamed));
        if (whole.find("\xEF\xBF\xBD") == std::string::npos) {
          EXPECT_EQ(streamed.find("\xEF\xBF\xBD"), std::string::npos);
        }
      }
      EXPECT_EQ(streamed + stream.finish(), whole);
    }
  }
}

// A stream may stop anywhere, as when the token limit is reached: what it gave then equals the decode of those ids.
TEST(RegressA07, AStreamThatEndsWithinACharacterEqualsItsDecode) {
  for (const TokenizerGolden& golden : read_tokenizer_goldens("tokenizer_a07.json")) {
    for (const TokenizerGolden::Text& row : golden.texts) {
      for (size_t n = 0; n <= row.ids.size(); ++n) {
        const std::vector<int32_t> ids(row.ids.begin(), row.ids.begin() + ptrdiff_t(n));
        StreamDecoder stream(golden.tokenizer, false);
        std::string streamed;
        for (int32_t id : ids) streamed += stream.push(id);
        EXPECT_EQ(streamed + stream.finish(), golden.tokenizer.decode(ids, false)) << golden.name << ": " << row.text;
      }
    }
  }
}

}  // namespace
}  // namespace loft
