// text: the byte alphabet of byte-level BPE (GPT-2): each byte has one printable character that stands for it in
// pieces.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace loft {

struct ByteAlphabet {
  std::array<char32_t, 256> char_of{};
  std::array<std::string, 256> text_of;  // char_of as UTF-8
  std::array<int16_t, 512> byte_of{};    // -1: the character stands for no byte

  static const ByteAlphabet& get();
  std::string encode(std::string_view bytes) const;
  /// The bytes of a piece; nullopt when one of its characters stands for no byte.
  std::optional<std::string> decode(std::string_view piece) const;

 private:
  ByteAlphabet();
};

}  // namespace loft
