// text: sketches of tokenizer.json. JSON leaves through core/json.h, so that any word may stand in it.
#include "text/tokenizer_sketch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace loft {

std::string sketch_tokenizer_json(const TokenizerSketch& sketch) {
  Json vocab = Json::object();
  Json merges = Json::array();
  const auto add = [&](const std::string& piece) {
    if (!vocab.contains(piece)) vocab[piece] = vocab.size();
  };
  if (sketch.byte_level) {
    for (const std::string& text : ByteAlphabet::get().text_of) add(text);
  } else {
    add("<unk>");
    for (unsigned b = 0; b < 256; ++b) add(fmt::format("<0x{:02X}>", b));
  }
  for (const std::string& word : sketch.words) {
    const std::u32string characters = to_code_points(sketch.byte_level ? ByteAlphabet::get().encode(word) : word);
    std::string start;
    for (size_t i = 0; i < characters.size(); ++i) {
      const std::string next = to_utf8(characters.substr(i, 1));
      add(next);
      if (!start.empty() && !vocab.contains(start + next)) merges.push_back(start + " " + next);
      start += next;
      add(start);
    }
  }
  return fmt::format(
      R"({{"version":"1.0","added_tokens":{},"normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},)"
      R"("model":{{"type":"BPE"{},"vocab":{},"merges":{}}}}})",
      sketch.added_tokens, sketch.normalizer, sketch.pre_tokenizer, sketch.post_processor, sketch.decoder,
      sketch.model_members, dump_json(vocab), dump_json(merges));
}

std::string sketch_split(const std::string& pattern) {
  return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + pattern +
         R"("},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
}

std::string sketch_space_decoder(bool strip) {
  return std::string(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)") +
         R"({"type":"ByteFallback"},{"type":"Fuse"})" +
         (strip ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "") + "]}";
}

}  // namespace loft
