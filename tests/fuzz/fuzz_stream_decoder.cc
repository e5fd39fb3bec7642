// Fuzz target: the first byte picks a decoder, the others are ids in two bytes each. The stream must equal the whole
// decode at every length and must never give half a character.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "text/stream_decoder.h"
#include "text/tokenizer_sketch.h"
#include "text/utf8.h"

namespace {

std::vector<loft::Tokenizer> make_tokenizers() {
  std::vector<loft::Tokenizer> tokenizers;
  const std::string decoders[] = {
      R"({"type":"ByteLevel"})",
      loft::sketch_space_decoder(true),
      loft::sketch_space_decoder(false),
      "null",
      R"({"type":"Metaspace","replacement":"▁"})",
      R"({"type":"BPEDecoder","suffix":"b"})",
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"ab"},"content":"-"},
          {"type":"Strip","content":"b","start":2,"stop":2}]})",
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"Regex":"a+b"},"content":"-"}]})"};
  for (const std::string& decoder : decoders) {
    for (bool byte_level : {true, false}) {
      loft::TokenizerSketch sketch;
      sketch.byte_level = byte_level;
      sketch.words = {"aab", "▁▁a", "\xC3\xA9z", "\xF0\x9F\x98\x80"};
      sketch.decoder = decoder;
      sketch.added_tokens = R"([{"id":400,"content":"<s>","special":true}])";
      tokenizers.push_back(loft::Tokenizer::from_json(loft::sketch_tokenizer_json(sketch), "fuzz"));
    }
  }
  return tokenizers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<loft::Tokenizer> tokenizers = make_tokenizers();
  if (size < 1 || size > 512) return 0;
  const loft::Tokenizer& tokenizer = tokenizers[data[0] % tokenizers.size()];
  std::vector<int32_t> ids;
  loft::StreamDecoder stream(tokenizer, data[0] >= 128);
  std::string streamed;
  for (size_t i = 1; i + 1 < size; i += 2) {
    ids.push_back(int32_t((data[i] << 8 | data[i + 1]) % 420) - 2);
    streamed += stream.push(ids.back());
    if (!loft::is_valid_utf8(streamed)) std::abort();
    loft::StreamDecoder fresh(tokenizer, data[0] >= 128);
    std::string again;
    for (int32_t id : ids) again += fresh.push(id);
    if (again != streamed || again + fresh.finish() != tokenizer.decode(ids, data[0] >= 128)) std::abort();
  }
  return 0;
}
