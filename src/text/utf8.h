// text: UTF-8 as bytes and code points. What enters: bytes from anywhere. What leaves: valid UTF-8, replaced as
// Python's errors="replace" does: one U+FFFD for each longest start of a character that cannot be completed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace loft {

void append_utf8(std::string& out, char32_t c);

/// The code point at `at` in valid UTF-8; `at` moves behind it.
inline char32_t next_code_point(std::string_view valid, size_t& at) {
  const auto byte = [&](size_t i) { return char32_t(static_cast<unsigned char>(valid[i])); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return ++at, lead;
  if (lead < 0xE0) return at += 2, ((lead & 0x1F) << 6) | (byte(at - 1) & 0x3F);
  if (lead < 0xF0) return at += 3, ((lead & 0x0F) << 12) | ((byte(at - 2) & 0x3F) << 6) | (byte(at - 1) & 0x3F);
  at += 4;
  return ((lead & 7) << 18) | ((byte(at - 3) & 0x3F) << 12) | ((byte(at - 2) & 0x3F) << 6) | (byte(at - 1) & 0x3F);
}

/// The code point that ends before `at` (> 0) in valid UTF-8; `at` moves to its first byte.
char32_t previous_code_point(std::string_view valid, size_t& at);

std::u32string to_code_points(std::string_view valid);
std::string to_utf8(std::u32string_view code_points);

/// Bytes of the valid start of `bytes`: where the first broken character begins, or its size.
size_t valid_utf8_length(std::string_view bytes);
bool is_valid_utf8(std::string_view bytes);

/// Turns bytes into valid UTF-8 piece by piece: a character that may still be completed is held back.
class Utf8Replacer {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  ///< what is held back becomes one U+FFFD

 private:
  void push_byte(unsigned char b, std::string& out);
  char held_[4] = {};
  int n_held_ = 0;
};

std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace loft
