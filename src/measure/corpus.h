// measure: the text that a measuring tool scores. What enters: a file and a tokenizer. What leaves: its tokens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace loft {

struct Corpus {
  std::vector<int32_t> ids{};
  std::string sha256{};  // of the file
};

/// Errors: NotFound; Unsupported (larger than 1 GiB); Corrupt for bytes that are no UTF-8, with their offset.
Corpus read_corpus(const std::filesystem::path& path, const Tokenizer& tokenizer, bool add_special_tokens);

/// What the tokenizer puts before a text: the first id of the empty text with special tokens; nullopt: nothing.
std::optional<int32_t> begin_token(const Tokenizer& tokenizer);

}  // namespace loft
