// text: added tokens: the longest match at the leftmost place wins, whatever its `special` flag.
#include "text/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace loft {
namespace {

bool has_bits_before(std::string_view text, size_t at, unsigned bits) {
  return at > 0 && (CharTable::get().bits(previous_code_point(text, at)) & bits) != 0;
}

bool has_bits_behind(std::string_view text, size_t at, unsigned bits) {
  return at < text.size() && (CharTable::get().bits(next_code_point(text, at)) & bits) != 0;
}

AddedToken read_token(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object", where, brief(json));
  const int64_t id = take<int64_t>(json, "id", where);
  if (id < 0) fail(Code::Corrupt, "{}.id: found {}, wanted 0 or more", where, id);
  if (id >= Vocabulary::kMaxIds) {
    fail(Code::Unsupported, "{}.id: found {}, at most {} is read", where, id, Vocabulary::kMaxIds - 1);
  }
  const bool special = take_or<bool>(json, "special", false, where);
  return {.id = int32_t(id),
          .content = take<std::string>(json, "content", where),
          .single_word = take_or<bool>(json, "single_word", false, where),
          .lstrip = take_or<bool>(json, "lstrip", false, where),
          .rstrip = take_or<bool>(json, "rstrip", false, where),
          .normalized = take_or<bool>(json, "normalized", !special, where),
          .special = special};
}

}  // namespace

void TokenTrie::add(std::string_view text, size_t value) {
  if (text.empty()) return;
  starts_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (char c : text) {
    const uint64_t key = uint64_t(node) << 8 | static_cast<unsigned char>(c);
    const auto [at, is_new] = children_.try_emplace(key, uint32_t(values_.size()));
    if (is_new) values_.push_back(-1);
    node = at->second;
  }
  if (values_[node] < 0) values_[node] = int64_t(value);
}

TokenTrie::Found TokenTrie::longest(std::string_view text, size_t at) const {
  Found found;
  if (!starts_[static_cast<unsigned char>(text[at])]) return found;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto child = children_.find(uint64_t(node) << 8 | static_cast<unsigned char>(text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (values_[node] >= 0) found = {size_t(values_[node]), i + 1 - at};
  }
  return found;
}

AddedTokens AddedTokens::from_json(const Json& list, const std::string& where, const Vocabulary& model,
                                   const Normalizer& normalizer) {
  AddedTokens result;
  if (list.is_null()) return result;
  if (!list.is_array()) fail(Code::Corrupt, "{}: found {}, wanted a list", where, brief(list));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    AddedToken token = read_token(list[i], place);
    if (token.content.empty()) continue;
    if (const std::optional<int32_t> id = model.id(token.content)) {
      token.id = *id;
    } else if (const auto piece = model.piece(token.id)) {
      fail(Code::Corrupt, "{}.id: {} is \"{}\" here and \"{}\" in the vocabulary", place, token.id, token.content,
           *piece);
    }
    const auto [at, is_new] = result.by_id_.try_emplace(token.id, result.tokens_.size());
    if (!is_new) {
      AddedToken& other = result.tokens_[at->second];
      if (other.content != token.content) {
        fail(Code::Corrupt, "{}.id: {} is \"{}\" here and \"{}\" before", place, token.id, token.content,
             other.content);
      }
      other = token;
      continue;
    }
    if (!result.by_content_.try_emplace(token.content, token.id).second) {
      fail(Code::Corrupt, "{}.content: \"{}\" has two ids", place, token.content);
    }
    result.end_id_ = std::max(result.end_id_, token.id + 1);
    result.tokens_.push_back(std::move(token));
  }
  // Special tokens first: of two that normalize to the same text the first one is found.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < result.tokens_.size(); ++i) {
      AddedToken& token = result.tokens_[i];
      if (token.special != special) continue;
      if (special) result.special_.insert(token.content);
      token.text = token.normalized ? normalizer.apply(token.content) : token.content;
      (token.normalized ? result.normalized_ : result.plain_).add(token.text, i);
    }
  }
  return result;
}

std::vector<AddedTokens::Section> AddedTokens::split(std::string_view text, bool normalized) const {
  const TokenTrie& trie = normalized ? normalized_ : plain_;
  std::vector<Section> sections;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const TokenTrie::Found found = trie.longest(text, at);
    if (found.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found.value];
    size_t begin = at;
    size_t end = at + found.length;
    at = end;  // the search goes on here even where rstrip takes more, so a token within those spaces is found as well
    if (token.single_word && (has_bits_before(text, begin, kIsWord) || has_bits_behind(text, end, kIsWord))) continue;
    if (token.lstrip) {
      while (begin > done && has_bits_before(text, begin, kIsSpace)) previous_code_point(text, begin);
      begin = std::max(begin, done);
    }
    if (token.rstrip) {
      while (has_bits_behind(text, end, kIsSpace)) next_code_point(text, end);
    }
    if (done < begin) sections.push_back({done, begin, -1});
    // Within spaces that are taken already nothing is left of a token.
    if (begin < end) sections.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) sections.push_back({done, text.size(), -1});
  return sections;
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &tokens_[at->second];
}

std::optional<int32_t> AddedTokens::id(std::string_view content) const {
  const auto at = by_content_.find(std::string(content));
  return at == by_content_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace loft
