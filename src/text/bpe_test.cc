#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "text/tokenizer_sketch.h"

namespace loft {
namespace {

Bpe load(const std::string& json) {
  return Bpe::from_json(read_tokenizer_json(json, "t.json"), "t.json: model");
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view word) {
  std::vector<int32_t> ids;
  bpe.encode(word, ids);
  return ids;
}

std::string model(const std::string& members) {
  return R"({"model":{"type":"BPE",)" + members + "}}";
}

// Read this first: the lowest rank anywhere in the word, the leftmost of equals, until no pair has a merge.
std::vector<std::string> simple_bpe(std::vector<std::string> pieces,
                                    const std::vector<std::pair<std::string, std::string>>& merges) {
  while (true) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank] == std::pair(pieces[i], pieces[i + 1])) best_rank = rank, best = i;
      }
    }
    if (best_rank == merges.size()) return pieces;
    pieces[best] += pieces[best + 1];
    pieces.erase(pieces.begin() + ptrdiff_t(best) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsMergeByRankFromTheLeft) {
  const std::vector<std::pair<std::string, std::string>> merges = {{"a", "b"},   {"b", "a"},   {"ab", "a"},
                                                                   {"c", "c"},   {"cc", "cc"}, {"a", "a"},
                                                                   {"ab", "ab"}, {"b", "c"},   {"aba", "bc"}};
  std::string vocab, list;
  int id = 0;
  const auto add = [&](const std::string& piece) {
    vocab += (id ? ",\"" : "\"") + piece + "\":" + std::to_string(id), ++id;
  };
  for (const char* c : {"a", "b", "c"}) add(c);
  for (const auto& [left, right] : merges) {
    add(left + right);
    list += (list.empty() ? "[\"" : ",[\"") + left + "\",\"" + right + "\"]";
  }
  const Bpe bpe = load(model("\"vocab\":{" + vocab + "},\"merges\":[" + list + "]"));
  std::mt19937 rng(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> characters;
    std::string word;
    for (size_t n = 1 + rng() % (i % 2 ? 12 : 150); n > 0; --n)
      characters.push_back(std::string(1, char('a' + rng() % 3)));
    for (const std::string& c : characters) word += c;
    std::vector<int32_t> wanted;
    for (const std::string& piece : simple_bpe(characters, merges)) wanted.push_back(*bpe.vocabulary().id(piece));
    ASSERT_EQ(encode(bpe, word), wanted) << word;
  }
}

// Seen to take minutes when merge_long scans all pairs for each merge.
TEST(Bpe, AMegabyteInOneWordEndsSoon) {
  const Bpe bpe = load(sketch_tokenizer_json({.words = {"aaaaaaaaaaaaaaaa", "abab"}}));
  std::string word(1 << 20, 'a');
  for (size_t i = 0; i < word.size(); i += 5) word[i] = 'b';
  EXPECT_GT(encode(bpe, word).size(), word.size() / 8);
}

TEST(Bpe, UnknownCharactersBecomeBytesThenTheUnknownToken) {
  const std::string vocab = R"("vocab":{"<unk>":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[])";
  const std::string unk = R"("unk_token":"<unk>",)";
  EXPECT_EQ(encode(load(model(vocab)), "a\u00e9a"), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(encode(load(model(unk + vocab)), "\u00e9\u00e8a"), (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(encode(load(model(R"("fuse_unk":true,)" + unk + vocab)), "\u00e9\u00e8a"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(encode(load(model(R"("byte_fallback":true,)" + unk + vocab)), "\u00e9a\u00e8"),
            (std::vector<int32_t>{2, 3, 1, 0}));
  EXPECT_THROW(encode(load(model(R"("unk_token":"<no>",)" + vocab)), "\u00e9"), Error);
}

TEST(Bpe, PrefixSuffixAndWholeWords) {
  const Bpe affixes = load(model(R"("continuing_subword_prefix":"##","end_of_word_suffix":"</w>",
      "vocab":{"a":0,"##b</w>":1,"ab</w>":2,"a</w>":3},"merges":["a ##b</w>"])"));
  EXPECT_EQ(encode(affixes, "ab"), (std::vector<int32_t>{2}));
  EXPECT_EQ(encode(affixes, "a"), (std::vector<int32_t>{3}));
  const Bpe whole = load(model(R"("ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2},"merges":[])"));
  EXPECT_EQ(encode(whole, "ab"), (std::vector<int32_t>{2}));
  EXPECT_EQ(encode(whole, "aba"), (std::vector<int32_t>{0, 1, 0}));
}

// Seen to fail when may_cut leaves out its look at the merges: "x▁" is a piece here.
TEST(Bpe, LongTextsAreNotCutWhereAMergeReachesOverASpace) {
  const Bpe bpe = load(sketch_tokenizer_json({.byte_level = false, .words = {"x▁y", "a▁▁", "▁b"}}));
  std::string text;
  for (int i = 0; i < 30; ++i) text += "x▁y▁b";
  const std::vector<int32_t> ids = encode(bpe, text);
  EXPECT_EQ(ids.size(), 60u);
  EXPECT_EQ(ids[0], bpe.vocabulary().id("x▁y"));
}

TEST(Bpe, ABrokenModelIsRefusedByTheNameOfItsKey) {
  struct Row {
    std::string json, says;
    Code code;
  };
  const Row rows[] = {
      {R"({})", "model: found nothing", Code::Corrupt},
      {R"({"model":[]})", "model: found []", Code::Corrupt},
      {R"({"model":{"type":"Unigram","vocab":[]}})", "Unigram", Code::Unsupported},
      {R"({"model":{"type":"WordPiece","vocab":{}}})", "WordPiece", Code::Unsupported},
      {R"({"model":{"vocab":{}}})", "model.type", Code::Unsupported},
      {model(R"("vocab":{},"merges":{})"), "model.merges: wanted a list", Code::Corrupt},
      {model(R"("vocab":[],"merges":[])"), "model.vocab", Code::Corrupt},
      {model(R"("merges":[])"), "model.vocab", Code::Corrupt},
      {model(R"("vocab":{})"), "model.merges", Code::Corrupt},
      {model(R"("vocab":{"a":"0"},"merges":[])"), "model.vocab.\"a\"", Code::Corrupt},
      {model(R"("vocab":{"a":1.5},"merges":[])"), "model.vocab.\"a\"", Code::Corrupt},
      {model(R"("vocab":{"a":null},"merges":[])"), "model.vocab.\"a\"", Code::Corrupt},
      {model(R"("vocab":{"a":[1]},"merges":[])"), "model.vocab.\"a\"", Code::Corrupt},
      {model(R"("vocab":{"a":{}},"merges":[])"), "model.vocab.\"a\"", Code::Corrupt},
      {model(R"("vocab":{"a":-1},"merges":[])"), "-1", Code::Corrupt},
      {model(R"("vocab":{"a":0,"b":0},"merges":[])"), "the id 0", Code::Corrupt},
      {model(R"("vocab":{"a":0,"a":1},"merges":[])"), "two ids", Code::Corrupt},
      {model(R"("vocab":{"a":2147483647},"merges":[])"), "2147483647", Code::Unsupported},
      {model(R"("vocab":{"a":18446744073709551615},"merges":[])"), "the id", Code::Unsupported},
      {model(R"("vocab":{"a":0},"merges":["a b"])"), "\"b\"", Code::Corrupt},
      {model(R"("vocab":{"a":0,"b":1},"merges":["a b"])"), "\"ab\"", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":["a"])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":["a a a"])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[["a"]])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[["a","a","a"]])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[["a",1]])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[[["a"],"a"]])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[7])"), "model.merges[0]", Code::Corrupt},
      {model(R"("vocab":{"a":0},"merges":[{}])"), "model.merges[0]", Code::Corrupt},
      {model(R"("dropout":0.1,"vocab":{},"merges":[])"), "model.dropout", Code::Unsupported},
      {model(R"("fuse_unk":1,"vocab":{},"merges":[])"), "model.fuse_unk", Code::Corrupt},
      {model(R"("unk_token":7,"vocab":{},"merges":[])"), "model.unk_token", Code::Corrupt},
      {model(R"("continuing_subword_prefix":"####","vocab":{"a":0},"merges":["a a"])"), "continuing_subword_prefix",
       Code::Corrupt},
      {"{\"model\":" + std::string(100, '['), "deeper", Code::Corrupt},
      {R"({"model":)", "not valid JSON", Code::Corrupt},
      {"\"\xff\"", "not valid JSON", Code::Corrupt},
      {"7", "model: found nothing", Code::Corrupt},
  };
  for (const Row& row : rows) {
    try {
      load(row.json);
      ADD_FAILURE() << row.json << " was taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(row.says), std::string::npos) << row.json << ": " << e.what();
      EXPECT_EQ(e.code(), row.code) << e.what();
    }
  }
}

}  // namespace
}  // namespace loft
