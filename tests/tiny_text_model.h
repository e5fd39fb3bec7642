// Tests only: a tiny seeded checkpoint on disk with a tokenizer of bytes and, where asked for, a begin token; a text;
// and loft run over them.
#pragma once
#include <fstream>
#include <sstream>

#include "engine/scripted_engine.h"
#include "tests/program.h"
#include "tests/tiny_checkpoint.h"

namespace loft {

/// Bytes are tokens, so the token at i is byte i. All letters differ from their neighbours, none is 'Q'.
inline std::string some_text(size_t n) {
  std::string text;
  uint32_t state = 7;
  while (text.size() < n) {
    state = state * 1664525u + 1013904223u;
    text += state >> 28 == 0 ? ' ' : char('a' + (state >> 24) % 26);
  }
  return text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct TinyTextModel {
  TempFolder temp;
  std::filesystem::path model = temp / "model";
  std::filesystem::path text = temp / "text.txt";

  TinyTextModel(const Json& config, bool has_bos, DType dtype = DType::F16, size_t n_text = 400) {
    SynthRequest request = tiny_request(config);
    request.dtype = dtype;
    synth_checkpoint(request, model);
    scripted::Vocabulary vocabulary;
    if (has_bos) {
      vocabulary.specials = {"<bos>"};
      vocabulary.bos = "<bos>";
    }
    scripted::write_tokenizer(model, vocabulary);
    write_text_file(text, some_text(n_text));
  }
  std::filesystem::path operator/(const std::string& name) const { return temp / name; }

  /// loft TOOL MODEL TEXT ARGS, or loft TOOL MODEL ARGS.
  program::Outcome run(const std::string& tool, std::vector<std::string> args, const program::Input& input = {},
                       bool with_text = true) const {
    std::vector<std::string> all = {tool, model.string()};
    if (with_text) all.push_back(text.string());
    all.insert(all.end(), args.begin(), args.end());
    return program::run(LOFT_BINARY, all, input);
  }
};

}  // namespace loft
