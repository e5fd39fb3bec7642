// text: the BPE model of tokenizer.json. What enters: one word of a pre-tokenizer. What leaves: its ids.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace loft {

/// Byte pair encoding (Sennrich et al. 2016, arXiv 1508.07909) with the flags of `tokenizers`: byte_fallback, fuse_unk,
/// ignore_merges, continuing_subword_prefix, end_of_word_suffix. Const after load.
class Bpe {
 public:
  /// The member `model`. Errors: Corrupt (wrong shapes, a merge of unknown pieces), Unsupported (another model type,
  /// dropout other than 0), naming the key.
  static Bpe from_json(const TokenizerJson& json, const std::string& where);

  /// Appends the ids of one word. Errors: Corrupt when an unknown character meets an unk_token that is not in the
  /// vocabulary. O(n log n) in the length of the word.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  struct MergeSlot {
    uint64_t pair = UINT64_MAX;
    Merge merge{};
  };
  struct Symbols;
  void read_vocabulary(const TokenizerJson& json, const std::string& where);
  void read_merges(const TokenizerJson& json, const std::string& where);
  void add_merge(std::string_view left, std::string_view right, uint32_t rank, const std::string& place);
  const Merge* find_merge(int32_t left, int32_t right) const;
  size_t merge_slot(uint64_t pair) const;
  int32_t id_of_character(std::string_view character, bool is_first, bool is_last) const;
  bool may_cut(std::string_view word, size_t at) const;
  void encode_segment(std::string_view segment, std::vector<int32_t>& ids) const;
  void append_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(std::vector<int32_t>& symbols) const;

  Vocabulary vocabulary_;
  std::vector<MergeSlot> merges_;   // open addressing, a power of two
  std::vector<int32_t> small_ids_;  // ids of one-character pieces below U+0800 without prefix or suffix; -1: none
  std::u32string joined_to_space_;  // characters that a merge joins with a space mark behind them
  std::vector<int32_t> byte_ids_;   // ids of <0x00> to <0xFF>; -1: none
  std::string prefix_, suffix_, unk_token_;
  std::optional<int32_t> unk_id_;
  bool byte_fallback_ = false, fuse_unk_ = false, ignore_merges_ = false;
};

}  // namespace loft
