// text: reads tokenizer.json in one pass. What enters: its text. What leaves: vocabulary and merges of a BPE model in
// flat memory, since there may be a million of them, and everything else as JSON.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace loft {

/// Strings one after the other in one buffer.
class FlatStrings {
 public:
  void add(std::string_view text);
  void clear();
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  size_t size() const { return ends_.size() - 1; }
  size_t n_bytes() const { return bytes_.size(); }

 private:
  std::string bytes_;
  std::vector<size_t> ends_ = {0};
};

struct TokenizerJson {
  std::shared_ptr<const Json>
      rest;  // never null; without model.vocab when that is an object, and without model.merges when that is a list
  bool has_vocab = false;    // model.vocab is an object
  FlatStrings pieces;        // its keys
  std::vector<int64_t> ids;  // and values; those beyond 64 bits as INT64_MAX
  bool has_merges = false;   // model.merges is a list
  FlatStrings merges;        // left and right pieces in turn, of "a b" and ["a", "b"] alike
};

/// Errors: Corrupt (malformed, too deep, a vocabulary entry that is no integer, a merge of another shape, each with its
/// key), Unsupported (larger than 64 MiB).
TokenizerJson read_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace loft
