// text: the tokenizer of a checkpoint, as tokenizer.json describes it. What enters: text or ids. What leaves: ids or
// text, equal to those of the Python package `tokenizers`.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

class TokenDecoder;

/// Const after load, safe in several threads at once; copies share what was loaded. Truncation and padding in the file
/// are not followed: the engine decides on lengths.
class Tokenizer {
 public:
  /// tokenizer.json of the folder; tokenizer_config.json and special_tokens_map.json, where present, name bos, eos, unk
  /// and pad. Errors: NotFound; Corrupt; Unsupported for a type of component that is not known, by its name.
  static Tokenizer load(const std::filesystem::path& model_folder);
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view where);

  /// Bytes that are no UTF-8 are replaced as Python's errors="replace" does. Errors: Unsupported when a regex of the
  /// file needs too many steps; Corrupt when an unknown character meets an unk_token that has no id.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  /// Ids without a piece add nothing. Special is what the file says of the id; `tokenizers` 0.23 forgets it for a
  /// special token whose normalized form differs.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  int32_t vocab_size() const;  ///< largest id with a piece, plus 1
  std::optional<int32_t> token_id(std::string_view piece) const;
  std::optional<std::string> piece(int32_t id) const;  ///< as the file has it; nullopt: no such id
  bool is_special(int32_t id) const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  /// Names of the special tokens; empty when the files name none.
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& unk_token() const;
  const std::string& pad_token() const;

  const TokenDecoder& decoder() const;
  /// What the decoder gets for an id; nullopt: nothing.
  std::optional<std::string_view> decoder_input(int32_t id, bool skip_special_tokens) const;

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  static std::shared_ptr<Data> parse(std::string_view tokenizer_json, std::string_view where);
  std::optional<std::string_view> piece_view(int32_t id) const;
  void encode_text(std::string text, bool at_start, std::vector<int32_t>& ids) const;
  std::shared_ptr<const Data> data_;
};

}  // namespace loft
