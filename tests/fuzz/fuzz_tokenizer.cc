// Fuzz target: the bytes are a tokenizer.json; when it loads, a fixed text is encoded and its ids decoded and streamed.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kText =
      "Hello  <s>WORLD's\n\n 12345 \xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80\xE2\x96\x81\xFF abc\t.";
  try {
    const auto tokenizer = loft::Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::vector<int32_t> ids = tokenizer.encode(kText, true);
    const std::string whole = tokenizer.decode(ids, false);
    loft::StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (int32_t id : ids) streamed += stream.push(id);
    if (streamed + stream.finish() != whole) std::abort();
  } catch (const loft::Error&) {
  }
  return 0;
}
