// text: byte pair encoding. Merges are applied by rank, the leftmost first among equals.
#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/utf8.h"

namespace loft {
namespace {

constexpr size_t kSmallCharacters = 0x800;
constexpr size_t kShortWord = 48;  // symbols up to which scanning all pairs beats a heap
constexpr uint32_t kNoRank = UINT32_MAX;

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

// Multiply-and-fold hash of a pair of ids.
uint64_t hash_pair(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return key ^ (key >> 32);
}

bool starts_with_space(std::string_view text) {
  return text.starts_with(' ') || text.starts_with("\u2581");
}

}  // namespace

void Bpe::read_vocabulary(const TokenizerJson& json, const std::string& where) {
  if (!json.has_vocab) fail(Code::Corrupt, "{}.vocab: wanted an object of pieces and ids", where);
  const std::string place = where + ".vocab";
  vocabulary_.reserve(json.pieces.size(), json.pieces.n_bytes());
  for (size_t i = 0; i < json.ids.size(); ++i) vocabulary_.add(json.pieces[i], json.ids[i], place);
}

size_t Bpe::merge_slot(uint64_t pair) const {
  size_t slot = hash_pair(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != pair && merges_[slot].pair != UINT64_MAX) slot = (slot + 1) & (merges_.size() - 1);
  return slot;
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_key(left, right);
  const MergeSlot& slot = merges_[merge_slot(pair)];
  return slot.pair == pair ? &slot.merge : nullptr;
}

void Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank, const std::string& place) {
  const auto known = [&](std::string_view piece) {
    const std::optional<int32_t> id = vocabulary_.id(piece);
    if (!id) fail(Code::Corrupt, "{}[{}]: the piece \"{}\" is not in the vocabulary", place, rank, piece);
    return *id;
  };
  const int32_t left_id = known(left);
  const int32_t right_id = known(right);
  if (right.size() < prefix_.size()) {
    fail(Code::Corrupt, "{}[{}]: \"{}\" lacks the continuing_subword_prefix", place, rank, right);
  }
  if (starts_with_space(right) && !left.empty()) {
    size_t at = left.size();
    const char32_t last = previous_code_point(left, at);
    if (joined_to_space_.find(last) == std::u32string::npos) joined_to_space_ += last;
  }
  std::string joined(left);
  joined += right.substr(prefix_.size());
  MergeSlot& slot = merges_[merge_slot(pair_key(left_id, right_id))];
  slot.pair = pair_key(left_id, right_id);
  slot.merge = {rank, known(joined)};  // of two equal pairs the later one stands
}

void Bpe::read_merges(const TokenizerJson& json, const std::string& where) {
  if (!json.has_merges) fail(Code::Corrupt, "{}.merges: wanted a list", where);
  const size_t n_merges = json.merges.size() / 2;
  size_t n_slots = 16;
  while (n_slots < 2 * (n_merges + 1)) n_slots *= 2;
  merges_.assign(n_slots, {});
  for (size_t i = 0; i < n_merges; ++i) {
    add_merge(json.merges[2 * i], json.merges[2 * i + 1], uint32_t(i), where + ".merges");
  }
}

Bpe Bpe::from_json(const TokenizerJson& json, const std::string& where) {
  const Json* found = find_member(*json.rest, "model");
  if (!found || !found->is_object()) {
    fail(Code::Corrupt, "{}: found {}, wanted an object", where, found ? brief(*found) : "nothing");
  }
  const Json& model = *found;
  // Files of the first years name no type; a BPE is known by its merges.
  const std::string type = take_or<std::string>(model, "type", json.has_merges ? "BPE" : "none", where);
  if (type != "BPE") fail(Code::Unsupported, "{}.type: the model \"{}\" is not supported, wanted BPE", where, type);
  const double dropout = take_or<double>(model, "dropout", 0.0, where);
  if (dropout != 0.0) fail(Code::Unsupported, "{}.dropout: found {}, only 0 or null is supported", where, dropout);
  Bpe bpe;
  bpe.prefix_ = take_or<std::string>(model, "continuing_subword_prefix", "", where);
  bpe.suffix_ = take_or<std::string>(model, "end_of_word_suffix", "", where);
  bpe.unk_token_ = take_or<std::string>(model, "unk_token", "", where);
  bpe.byte_fallback_ = take_or<bool>(model, "byte_fallback", false, where);
  bpe.fuse_unk_ = take_or<bool>(model, "fuse_unk", false, where);
  bpe.ignore_merges_ = take_or<bool>(model, "ignore_merges", false, where);
  bpe.read_vocabulary(json, where);
  bpe.read_merges(json, where);
  bpe.unk_id_ = bpe.vocabulary_.id(bpe.unk_token_);
  for (unsigned b = 0; b < 256; ++b) {
    bpe.byte_ids_.push_back(bpe.vocabulary_.id(fmt::format("<0x{:02X}>", b)).value_or(-1));
  }
  for (char32_t c = 0; c < kSmallCharacters; ++c) {
    std::string text;
    append_utf8(text, c);
    bpe.small_ids_.push_back(bpe.vocabulary_.id(text).value_or(-1));
  }
  return bpe;
}

int32_t Bpe::id_of_character(std::string_view character, bool is_first, bool is_last) const {
  const bool plain = (is_first || prefix_.empty()) && (!is_last || suffix_.empty());
  if (plain && character.size() <= 2) {
    size_t at = 0;
    return small_ids_[next_code_point(character, at)];
  }
  if (plain) return vocabulary_.id(character).value_or(-1);
  std::string text = is_first ? "" : prefix_;
  text += character;
  if (is_last) text += suffix_;
  return vocabulary_.id(text).value_or(-1);
}

// The characters of the word as ids. An unknown one becomes its bytes, the unk token, or nothing, in this order. A
// waiting unk token is put down by the next known character, so bytes overtake it: that is how the reference has it.
void Bpe::append_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  bool unk_waits = false;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    next_code_point(word, at);
    const std::string_view character = word.substr(begin, at - begin);
    const bool is_first = begin == 0;
    const bool is_last = at == word.size();
    const int32_t id = id_of_character(character, is_first, is_last);
    if (id >= 0) {
      if (unk_waits) symbols.push_back(*unk_id_);
      unk_waits = false;
      symbols.push_back(id);
      continue;
    }
    if (byte_fallback_) {
      std::string text = is_first ? "" : prefix_;
      text += character;
      if (is_last) text += suffix_;
      const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
      if (std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) >= 0; })) {
        for (char c : text) symbols.push_back(byte_id(c));
        continue;
      }
    }
    if (unk_token_.empty()) continue;
    if (!unk_id_) fail(Code::Corrupt, "model.unk_token: \"{}\" is needed and not in the vocabulary", unk_token_);
    if (unk_waits && !fuse_unk_) symbols.push_back(*unk_id_);
    unk_waits = true;
  }
  if (unk_waits) symbols.push_back(*unk_id_);
}

void Bpe::merge_short(std::vector<int32_t>& symbols) const {
  Merge merges[kShortWord];  // of the pair (i, i + 1)
  size_t n = symbols.size();
  const auto look_up = [&](size_t i) {
    const Merge* merge = find_merge(symbols[i], symbols[i + 1]);
    merges[i] = merge ? *merge : Merge{kNoRank, -1};
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) best = merges[i].rank < merges[best].rank ? i : best;
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].id;
    for (size_t i = best + 1; i + 1 < n; ++i) symbols[i] = symbols[i + 1];
    for (size_t i = best + 1; i + 2 < n; ++i) merges[i] = merges[i + 1];
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  symbols.resize(n);
}

// The same with a linked list and a heap; an entry whose pair has changed since is stale and passed over.
struct Bpe::Symbols {
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    int32_t id;
    bool operator>(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  std::vector<uint32_t> next, previous;
  std::vector<bool> gone;
};

void Bpe::merge_long(std::vector<int32_t>& symbols) const {
  const auto n = uint32_t(symbols.size());
  Symbols list;
  list.next.resize(n);
  list.previous.resize(n);
  list.gone.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    list.next[i] = i + 1;
    list.previous[i] = i - 1;  // wraps to n or more for the first
  }
  std::vector<Symbols::Candidate> heap;
  const auto add = [&](uint32_t at) {
    const Merge* merge = find_merge(symbols[at], symbols[list.next[at]]);
    if (merge) heap.push_back({merge->rank, at, merge->id});
    return merge != nullptr;
  };
  const auto push = [&](uint32_t at) {
    if (add(at)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i + 1 < n; ++i) add(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Symbols::Candidate top = heap.back();
    heap.pop_back();
    if (list.gone[top.at] || list.next[top.at] >= n) continue;
    const uint32_t right = list.next[top.at];
    const Merge* merge = find_merge(symbols[top.at], symbols[right]);
    if (!merge || merge->id != top.id) continue;
    symbols[top.at] = top.id;
    list.gone[right] = true;
    list.next[top.at] = list.next[right];
    if (list.next[right] < n) list.previous[list.next[right]] = top.at;
    if (list.previous[top.at] < n) push(list.previous[top.at]);
    if (list.next[top.at] < n) push(top.at);
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (!list.gone[i]) symbols[kept++] = symbols[i];
  }
  symbols.resize(kept);
}

// No merge reaches over this place: what stands before a space mark is a known character that no merge joins with one.
// Known characters keep their text in every merge, so the end of a left piece and the start of a right one tell it.
bool Bpe::may_cut(std::string_view word, size_t at) const {
  if (!starts_with_space(word.substr(at))) return false;
  size_t before = at;
  const char32_t last = previous_code_point(word, before);
  if (joined_to_space_.find(last) != std::u32string::npos) return false;
  size_t behind = at;
  next_code_point(word, behind);
  return id_of_character(word.substr(before, at - before), false, false) >= 0 &&
         id_of_character(word.substr(at, behind - at), false, false) >= 0;
}

void Bpe::encode_segment(std::string_view segment, std::vector<int32_t>& ids) const {
  std::vector<int32_t> symbols;
  symbols.reserve(segment.size());
  append_symbols(segment, symbols);
  if (symbols.size() <= kShortWord) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// SentencePiece models get whole texts as one word; these are cut at spaces where that changes nothing.
void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const std::optional<int32_t> id = vocabulary_.id(word)) return ids.push_back(*id);
  }
  size_t begin = 0;
  if (word.size() > kShortWord && prefix_.empty() && suffix_.empty()) {
    for (size_t at = 0; at < word.size(); next_code_point(word, at)) {
      if (at == 0 || !may_cut(word, at)) continue;
      encode_segment(word.substr(begin, at - begin), ids);
      begin = at;
    }
  }
  encode_segment(word.substr(begin), ids);
}

}  // namespace loft
