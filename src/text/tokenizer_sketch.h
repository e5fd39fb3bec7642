// text: small tokenizer.json texts made from a few words, for tests, benches and synthetic checkpoints.
#pragma once
#include <string>
#include <vector>

namespace loft {

/// Members are JSON texts except `words`. The vocabulary is: for a byte-level model the 256 characters of the byte
/// alphabet, else <unk>, the 256 byte pieces and the characters of the words; then each word and the starts of it, with
/// the merges that build it from the left.
struct TokenizerSketch {
  bool byte_level = true;
  std::vector<std::string> words{};  // in plain text; a byte-level sketch maps them
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string added_tokens = "[]";
  std::string model_members{};  // further members of the model, each with a comma in front
};

std::string sketch_tokenizer_json(const TokenizerSketch& sketch);

/// Split by the regex `pattern` (as it stands in a JSON string), then ByteLevel without its own regex.
std::string sketch_split(const std::string& pattern);

/// The decoder of SentencePiece-style models: Replace, ByteFallback, Fuse, and Strip of one leading space when asked.
std::string sketch_space_decoder(bool strip);

}  // namespace loft
