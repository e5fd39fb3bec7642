// text: ids to text as they come. What enters: one id at a time. What leaves: text as soon as its bytes are complete.
#pragma once
#include <cstdint>
#include <string>

#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace loft {

/// What push and finish have given so far is always a prefix of decode(all ids), holds no half character, and with
/// finish equals it. A run of <0x..> byte pieces is held until it ends, since its end decides whether it is text. The
/// tokenizer must outlive the stream. The cost of an id does not grow with the number of ids before it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  std::string push(int32_t id);
  std::string finish();  ///< what is left; the stream can then be used for another sequence

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  TokenDecoder::Stream stream_;
};

}  // namespace loft
