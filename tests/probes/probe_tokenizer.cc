// Probe for tests/python/tokenizer_compare.py: probe_tokenizer TOKENIZER_JSON. Reads lines "e HEX" (encode these bytes)
// and "d ID ID .." (decode these ids). Answers an encode with three lines: ids without and with special tokens, and the
// decode of the latter; a decode with two lines: all tokens, and special ones skipped. Texts are HEX. Each decode is
// also streamed, and a difference from the whole decode ends the probe with 1.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "core/error.h"
#include "core/file_map.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace {

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string decode(const loft::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  const std::string whole = tokenizer.decode(ids, skip);
  loft::StreamDecoder stream(tokenizer, skip);
  std::string streamed;
  for (int32_t id : ids) {
    streamed += stream.push(id);
    if (!whole.starts_with(streamed)) loft::fail(loft::Code::Internal, "the stream is no prefix of the decode");
  }
  streamed += stream.finish();
  if (streamed != whole) loft::fail(loft::Code::Internal, "the stream differs from the decode");
  return to_hex(whole);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const auto tokenizer = loft::Tokenizer::from_json(loft::read_text_file(argv[1], size_t(64) << 20), argv[1]);
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string rest = line.size() > 2 ? line.substr(2) : "";
    if (line[0] == 'e') {
      const std::string text = from_hex(rest);
      const std::vector<int32_t> ids = tokenizer.encode(text, true);
      fmt::print("{}\n{}\n{}\n", fmt::join(tokenizer.encode(text, false), " "), fmt::join(ids, " "),
                 decode(tokenizer, ids, false));
    } else {
      std::istringstream in(rest);
      std::vector<int32_t> ids;
      for (int32_t id; in >> id;) ids.push_back(id);
      fmt::print("{}\n{}\n", decode(tokenizer, ids, false), decode(tokenizer, ids, true));
    }
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
