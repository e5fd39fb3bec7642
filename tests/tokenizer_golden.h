// tests: the golden files of tests/golden/make_tokenizer_goldens.py: tokenizer.json texts, and texts with the ids and
// the decoded text of the Python package `tokenizers`.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace loft {

struct TokenizerGolden {
  struct Text {
    std::string text;
    std::vector<int32_t> ids;
    std::string decoded;
  };
  std::string name;
  Tokenizer tokenizer;
  std::vector<Text> texts;
};

inline std::vector<TokenizerGolden> read_tokenizer_goldens(const std::string& file) {
  const Json json = read_json_file(std::filesystem::path(LOFT_SOURCE_DIR) / "tests" / "golden" / file);
  std::vector<TokenizerGolden> goldens;
  for (const Json& one : json["cases"]) {
    TokenizerGolden golden{one["name"], Tokenizer::from_json(dump_json(one["tokenizer"]), file), {}};
    for (const Json& row : one["texts"]) golden.texts.push_back({row["text"], row["ids"], row["decoded"]});
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

}  // namespace loft
