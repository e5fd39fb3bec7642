// text: added tokens of tokenizer.json, found in the text before the model sees it. What enters: text. What leaves: the
// added tokens in it and the text between.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/json.h"
#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace loft {

struct AddedToken {
  int32_t id = 0;
  std::string content{};
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the spaces before it along
  bool rstrip = false;       // and those behind it; neither is a condition for the match
  bool normalized = true;    // searched in the normalized text, in its own normalized form
  bool special = false;      // left out by decode when asked
  std::string text{};        // what a decoder gets: the content, normalized where the token is
};

/// Finds the longest of many strings at a place: a trie of bytes.
class TokenTrie {
 public:
  void add(std::string_view text, size_t value);  // the first of two equal texts stands
  /// The longest text that starts at text[at]; its value and length, or length 0.
  struct Found {
    size_t value = 0, length = 0;
  };
  Found longest(std::string_view text, size_t at) const;

 private:
  std::unordered_map<uint64_t, uint32_t> children_;  // (node, byte) -> node
  std::vector<int64_t> values_ = {-1};               // by node; -1: no text ends here
  bool starts_[256] = {};
};

/// Const after load.
class AddedTokens {
 public:
  /// Reads the list; ids that the model's vocabulary gives win. Errors: Corrupt, Unsupported, as Vocabulary::add.
  static AddedTokens from_json(const Json& list, const std::string& where, const Vocabulary& model,
                               const Normalizer& normalizer);

  struct Section {
    size_t begin, end;
    int32_t id;  // of an added token, or -1 for text
  };
  /// Sections that cover the text; normalized: those tokens that are searched in normalized text.
  std::vector<Section> split(std::string_view text, bool normalized) const;

  const AddedToken* find(int32_t id) const;
  std::optional<int32_t> id(std::string_view content) const;
  bool is_special(std::string_view content) const { return special_.contains(std::string(content)); }
  int32_t end_id() const { return end_id_; }  ///< largest id + 1; 0: no tokens

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_set<std::string> special_;
  TokenTrie plain_, normalized_;  // values are indices of tokens_
  int32_t end_id_ = 0;
};

}  // namespace loft
