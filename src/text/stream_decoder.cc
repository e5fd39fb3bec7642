// text: the decoder chain over ids as they come.
#include "text/stream_decoder.h"

namespace loft {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens), stream_(tokenizer.decoder()) {}

std::string StreamDecoder::push(int32_t id) {
  std::string out;
  if (const auto piece = tokenizer_->decoder_input(id, skip_special_tokens_)) stream_.push(*piece, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  stream_.finish(out);
  return out;
}

}  // namespace loft
