// text: the byte alphabet. Printable bytes of Latin-1 stand for themselves, the others for U+0100 and up in their
// order.
#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace loft {

ByteAlphabet::ByteAlphabet() {
  byte_of.fill(-1);
  char32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    char_of[b] = printable ? char32_t(b) : next++;
    append_utf8(text_of[b], char_of[b]);
    byte_of[char_of[b]] = int16_t(b);
  }
}

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

std::string ByteAlphabet::encode(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 2);
  for (char c : bytes) out += text_of[static_cast<unsigned char>(c)];
  return out;
}

std::optional<std::string> ByteAlphabet::decode(std::string_view piece) const {
  std::string out;
  for (size_t at = 0; at < piece.size();) {
    const char32_t c = next_code_point(piece, at);
    if (c >= byte_of.size() || byte_of[c] < 0) return std::nullopt;
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte_of[c])));
  }
  return out;
}

}  // namespace loft
