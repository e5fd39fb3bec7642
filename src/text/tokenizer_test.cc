#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "core/error.h"
#include "core/file_map.h"
#include "text/stream_decoder.h"
#include "text/tokenizer_sketch.h"

namespace loft {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer from_sketch(const TokenizerSketch& sketch) {
  return Tokenizer::from_json(sketch_tokenizer_json(sketch), "t.json");
}

TokenizerSketch byte_level_sketch() {
  return {.words = {"hello", " world"},
          .pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false})",
          .decoder = R"({"type":"ByteLevel"})"};
}

std::string error_of(const TokenizerSketch& sketch) {
  try {
    from_sketch(sketch);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Tokenizer, WordsBecomePiecesAndTextAgain) {
  const Tokenizer tokenizer = from_sketch(byte_level_sketch());
  const Ids ids = tokenizer.encode("hello world", false);
  EXPECT_EQ(ids, (Ids{*tokenizer.token_id("hello"), *tokenizer.token_id("\u0120world")}));
  EXPECT_EQ(tokenizer.decode(ids, false), "hello world");
  EXPECT_EQ(tokenizer.encode("", true), Ids());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFF"
                                              "b",
                                              false),
                             false),
            "a\uFFFD"
            "b");
}

TEST(Tokenizer, IdsWithoutAPieceHaveNoTextAndNoName) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.added_tokens = R"([{"id":1000,"content":"<|end|>","special":true}])";
  const Tokenizer tokenizer = from_sketch(sketch);
  EXPECT_EQ(tokenizer.vocab_size(), 1001);
  EXPECT_EQ(tokenizer.piece(999), std::nullopt);
  EXPECT_EQ(tokenizer.piece(-1), std::nullopt);
  EXPECT_EQ(tokenizer.piece(1000), "<|end|>");
  EXPECT_TRUE(tokenizer.is_special(1000));
  EXPECT_FALSE(tokenizer.is_special(999));
  EXPECT_EQ(tokenizer.decode(Ids{999, -5, 1000, 1 << 30}, true), "");
  EXPECT_EQ(tokenizer.decode(Ids{1000}, false), "<|end|>");
  EXPECT_EQ(tokenizer.encode("<|end|>", false), Ids{1000});
}

TEST(Tokenizer, ThePostProcessorAddsSpecialTokensOnlyWhenAsked) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.added_tokens = R"([{"id":300,"content":"<s>","special":true}])";
  sketch.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[300],"tokens":["<s>"]}}})";
  const Tokenizer tokenizer = from_sketch(sketch);
  EXPECT_EQ(tokenizer.encode("a", true).front(), 300);
  EXPECT_EQ(tokenizer.encode("a", true).size(), 2u);
  EXPECT_EQ(tokenizer.encode("a", false).size(), 1u);
}

TEST(Tokenizer, AnAddedTokenThatIsNotSpecialIsStillOneId) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.added_tokens = R"([{"id":300,"content":"<think>","special":false,"normalized":false},
                            {"id":301,"content":"<think>x","special":true}])";
  const Tokenizer tokenizer = from_sketch(sketch);
  EXPECT_EQ(tokenizer.encode("a<think>b", false)[1], 300);
  EXPECT_EQ(tokenizer.encode("<think>x<think>", false), (Ids{301, 300}));
  EXPECT_EQ(tokenizer.decode(Ids{300, 301}, true), "<think>");
}

// The three are what `tokenizers` 0.23.3 gives for these files.
TEST(Tokenizer, ANormalizedAddedTokenIsDecodedInItsNormalizedForm) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.decoder = R"({"type":"Fuse"})";
  sketch.normalizer = R"({"type":"Lowercase"})";
  sketch.added_tokens = R"([{"id":300,"content":"AB","normalized":true},{"id":301,"content":"CD","normalized":false}])";
  const Tokenizer tokenizer = from_sketch(sketch);
  EXPECT_EQ(tokenizer.decode(Ids{300, 301}, false), "abCD");
  EXPECT_EQ(tokenizer.encode("aB", false), Ids{300});
  EXPECT_EQ(tokenizer.piece(300), "AB");
}

TEST(Tokenizer, NoDecoderJoinsWithSpacesAndAnEmptySequenceWithNothing) {
  TokenizerSketch sketch;
  EXPECT_EQ(from_sketch(sketch).decode(Ids{'a', 'b'}, false), "a b");
  sketch.decoder = R"({"type":"Sequence","decoders":[]})";
  EXPECT_EQ(from_sketch(sketch).decode(Ids{'a', 'b'}, false), "ab");
}

TEST(Tokenizer, SpacesThatAnAddedTokenTookGiveNoOtherToken) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.added_tokens =
      R"([{"id":300,"content":"  ","normalized":false,"lstrip":true,"rstrip":true},{"id":301,"content":"<t>","normalized":false,
          "rstrip":true},{"id":302,"content":"\nx","normalized":false}])";
  const Tokenizer tokenizer = from_sketch(sketch);
  EXPECT_EQ(tokenizer.encode("      a", false), (Ids{300, 'a'}));
  EXPECT_EQ(tokenizer.encode("<t>\nx", false), (Ids{301, 302}));  // found within the spaces, and more than they are
}

TEST(Tokenizer, ReadsTheSpecialTokensOfAModelFolder) {
  const auto folder = std::filesystem::temp_directory_path() / ("loft_tokenizer_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  TokenizerSketch sketch = byte_level_sketch();
  sketch.added_tokens = R"([{"id":300,"content":"<s>","special":true},{"id":301,"content":"</s>","special":true}])";
  write_text_file(folder / "tokenizer.json", sketch_tokenizer_json(sketch));
  EXPECT_EQ(Tokenizer::load(folder).bos_id(), std::nullopt);
  write_text_file(folder / "special_tokens_map.json", R"({"eos_token":"hello","pad_token":"!"})");
  write_text_file(folder / "tokenizer_config.json",
                  R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","unk_token":null,
                      "model_max_length":1000000000000000019884624838656})");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.bos_id(), 300);
  EXPECT_EQ(tokenizer.eos_id(), 301);
  EXPECT_EQ(tokenizer.eos_token(), "</s>");
  EXPECT_EQ(tokenizer.pad_token(), "!");
  EXPECT_EQ(tokenizer.unk_token(), "");
  write_text_file(folder / "tokenizer_config.json", R"({"bos_token":7})");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(Tokenizer::load(folder), Error);
}

TEST(Tokenizer, OneTokenizerServesManyThreads) {
  TokenizerSketch sketch = byte_level_sketch();
  sketch.pre_tokenizer = sketch_split(R"(\\p{L}+|\\s+(?!\\S)|[^\\p{L}]+)");
  const Tokenizer tokenizer = from_sketch(sketch);
  const std::string text = "hello world, \u00e9t\u00e9 123 \U0001f600";
  const Ids wanted = tokenizer.encode(text, false);
  std::vector<std::thread> threads;
  std::vector<int> n_wrong(4, 0);
  for (size_t t = 0; t < n_wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        n_wrong[t] += tokenizer.encode(text, false) != wanted || tokenizer.decode(wanted, true) != text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, ABrokenFileIsRefusedByTheNameOfItsKey) {
  struct Row {
    std::string TokenizerSketch::*member;
    std::string json, says;
  };
  const Row rows[] = {
      {&TokenizerSketch::added_tokens, "{}", "added_tokens: found {}"},
      {&TokenizerSketch::added_tokens, "[7]", "added_tokens[0]"},
      {&TokenizerSketch::added_tokens, R"([{"content":"x"}])", "added_tokens[0].id"},
      {&TokenizerSketch::added_tokens, R"([{"id":300}])", "added_tokens[0].content"},
      {&TokenizerSketch::added_tokens, R"([{"id":-1,"content":"x"}])", "added_tokens[0].id"},
      {&TokenizerSketch::added_tokens, R"([{"id":2147483648,"content":"xx"}])", "added_tokens[0].id"},
      {&TokenizerSketch::added_tokens, R"([{"id":300,"content":"x<>","lstrip":1}])", "added_tokens[0].lstrip"},
      {&TokenizerSketch::added_tokens, R"([{"id":0,"content":"x<>"}])", "added_tokens[0].id"},
      {&TokenizerSketch::added_tokens, R"([{"id":300,"content":"xx"},{"id":300,"content":"yy"}])",
       "added_tokens[1].id"},
      {&TokenizerSketch::added_tokens, R"([{"id":300,"content":"xx"},{"id":301,"content":"xx"}])",
       "added_tokens[1].content"},
      {&TokenizerSketch::normalizer, "7", "normalizer: found 7"},
      {&TokenizerSketch::normalizer, R"({"type":7})", "normalizer.type"},
      {&TokenizerSketch::normalizer, R"({"type":"Replace","content":""})", "normalizer.pattern"},
      {&TokenizerSketch::normalizer, R"({"type":"Replace","pattern":{"String":"a"}})", "normalizer.content"},
      {&TokenizerSketch::normalizer, R"({"type":"Sequence"})", "normalizer.normalizers"},
      {&TokenizerSketch::pre_tokenizer, R"({"type":"Split","pattern":{"String":"a"},"behavior":"Odd"})",
       "pre_tokenizer.behavior"},
      {&TokenizerSketch::pre_tokenizer, R"({"type":"Metaspace","replacement":"ab"})", "pre_tokenizer.replacement"},
      {&TokenizerSketch::pre_tokenizer, R"({"type":"Metaspace","replacement":"_","prepend_scheme":"last"})",
       "pre_tokenizer.prepend_scheme"},
      {&TokenizerSketch::pre_tokenizer, R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})",
       "pre_tokenizer.pattern.Regex"},
      {&TokenizerSketch::decoder, R"({"type":"Strip","content":" ","start":-1,"stop":0})", "decoder.start"},
      {&TokenizerSketch::decoder, R"({"type":"Strip","content":"","start":1,"stop":0})", "decoder.content"},
      {&TokenizerSketch::post_processor, R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]})",
       "special_tokens"},
      {&TokenizerSketch::post_processor, R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}]})",
       "single[0].Sequence.id"},
      {&TokenizerSketch::post_processor, R"({"type":"BertProcessing","sep":["x",1],"cls":["y"]})",
       "post_processor.cls"},
  };
  for (const Row& row : rows) {
    TokenizerSketch sketch;
    sketch.*row.member = row.json;
    EXPECT_NE(error_of(sketch).find(row.says), std::string::npos) << row.json << ": " << error_of(sketch);
  }
  std::string many = R"({"type":"Sequence","normalizers":[{"type":"NFC"})";
  for (int i = 0; i < 400; ++i) many += R"(,{"type":"NFC"})";
  EXPECT_NE(error_of({.normalizer = many + "]}"}).find("components"), std::string::npos);
}

}  // namespace
}  // namespace loft
