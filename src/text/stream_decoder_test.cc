#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "text/tokenizer_sketch.h"

namespace loft {
namespace {

std::vector<std::string> decoders() {
  const auto replace = [](const char* from, const char* to) {
    return std::string(R"({"type":"Replace","pattern":)") + from + R"(,"content":")" + to + R"("})";
  };
  const auto sequence = [](const std::string& list) { return R"({"type":"Sequence","decoders":[)" + list + "]}"; };
  const std::string fuse = R"({"type":"Fuse"})";
  return {
      "null",
      R"({"type":"ByteLevel"})",
      R"({"type":"Metaspace","replacement":"▁"})",
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})",
      R"({"type":"BPEDecoder","suffix":"a"})",
      sketch_space_decoder(true),
      sketch_space_decoder(false),
      sequence(fuse + "," + replace(R"({"String":"ab"})", "-")),
      sequence(fuse + "," + replace(R"({"Regex":"a+b"})", "-")),
      sequence(replace(R"({"String":"aab"})", "") + "," + fuse +
               R"(,{"type":"Strip","content":"b","start":2,"stop":3})"),
      sequence(
          R"({"type":"ByteFallback"},{"type":"Strip","content":"a","start":1,"stop":1},{"type":"BPEDecoder","suffix":"b"})"),
      sequence(
          R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"ByteFallback"},{"type":"Metaspace","replacement":"a"})")};
}

TEST(StreamDecoder, StreamedTextEqualsTheDecodeWithEveryDecoder) {
  std::mt19937 rng(11);
  for (const std::string& decoder : decoders()) {
    const Tokenizer tokenizer = Tokenizer::from_json(
        sketch_tokenizer_json({.byte_level = false,
                               .words = {"aab", "▁a", "ab▁", "▁▁", "b\u00e9", "\u0120a", "\u00c3\u00a9"},
                               .decoder = decoder}),
        "t.json");
    for (int i = 0; i < 400; ++i) {
      std::vector<int32_t> ids;
      // Byte pieces of e, accent and emoji and the words, in any order.
      const int32_t bytes[] = {1 + 0xC3, 1 + 0xA9, 1 + 0xF0, 1 + 0x9F, 1 + 0x98, 1 + 0x80, 1 + 'a', 1 + 'b'};
      for (size_t n = rng() % 12; n > 0; --n) {
        ids.push_back(rng() % 3 == 0 ? bytes[rng() % 8] : int32_t(257 + rng() % size_t(tokenizer.vocab_size() - 257)));
      }
      const std::string whole = tokenizer.decode(ids, false);
      StreamDecoder stream(tokenizer, false);
      std::string streamed;
      for (int32_t id : ids) {
        streamed += stream.push(id);
        ASSERT_TRUE(whole.starts_with(streamed)) << decoder;
      }
      ASSERT_EQ(streamed + stream.finish(), whole) << decoder;
      // The stream is empty again.
      streamed.clear();
      for (int32_t id : ids) streamed += stream.push(id);
      ASSERT_EQ(streamed + stream.finish(), whole) << decoder;
    }
  }
}

TEST(StreamDecoder, ACharacterComesWithItsLastByte) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(sketch_tokenizer_json({.decoder = R"({"type":"ByteLevel"})"}), "t.json");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\U0001f600");
  EXPECT_EQ(stream.push('x'), "x");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('y'), "\uFFFDy");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, SpecialTokensAreLeftOutWhenAsked) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      sketch_tokenizer_json(
          {.decoder = R"({"type":"ByteLevel"})",
           .added_tokens = R"([{"id":300,"content":"<s>","special":true},{"id":301,"content":"<t>"}])"}),
      "t.json");
  StreamDecoder skipping(tokenizer);
  EXPECT_EQ(skipping.push(300) + skipping.push(301) + skipping.push(12345), "<t>");
  StreamDecoder all(tokenizer, false);
  EXPECT_EQ(all.push(300) + all.push(301), "<s><t>");
}

// A stream that decodes everything again for each id would need some 10^11 steps here.
TEST(StreamDecoder, TheCostOfAnIdDoesNotGrow) {
  for (const std::string& decoder : {std::string(R"({"type":"ByteLevel"})"), sketch_space_decoder(true)}) {
    const Tokenizer tokenizer =
        Tokenizer::from_json(sketch_tokenizer_json({.words = {"hello"}, .decoder = decoder}), "t.json");
    StreamDecoder stream(tokenizer);
    const int32_t id = tokenizer.token_id("hello").value();
    size_t n_bytes = 0;
    for (int i = 0; i < 300000; ++i) n_bytes += stream.push(id).size();
    EXPECT_EQ(n_bytes + stream.finish().size(), 1500000u);
  }
}

}  // namespace
}  // namespace loft
