#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace loft::jinja {
namespace {

struct FullCase {
  char32_t c;
  const char* upper;
  const char* title;
};
// Code points whose upper or title case is more than one code point (Unicode SpecialCasing, the unconditional ones that
// occur in running text).
constexpr FullCase kFullCase[] = {
    {0xDF, "SS", "Ss"},     {0x149, "ʼN", "ʼN"},  {0x1F0, "J̌", "J̌"},    {0x390, "Ϊ́", "Ϊ́"},    {0x3B0, "Ϋ́", "Ϋ́"},
    {0x587, "ԵՒ", "Եւ"},    {0x1E96, "H̱", "H̱"},   {0x1E97, "T̈", "T̈"},   {0x1E98, "W̊", "W̊"},   {0x1E99, "Y̊", "Y̊"},
    {0x1E9A, "Aʾ", "Aʾ"},   {0xFB00, "FF", "Ff"}, {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"}, {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"}, {0xFB06, "ST", "St"}, {0xFB13, "ՄՆ", "Մն"}, {0xFB14, "ՄԵ", "Մե"},
    {0xFB15, "ՄԻ", "Մի"},   {0xFB16, "ՎՆ", "Վն"}, {0xFB17, "ՄԽ", "Մխ"},
};

const FullCase* full_case(char32_t c) {
  if (c < 0xDF) return nullptr;
  const auto it = std::find_if(std::begin(kFullCase), std::end(kFullCase), [c](const FullCase& f) { return f.c == c; });
  return it == std::end(kFullCase) ? nullptr : it;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(utf8proc_int32_t(c));
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

bool is_case_ignorable(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
         c == 0x2019 || c == 0x2018 || c == 0x2024 || c == 0x2027;
}

// A capital sigma at the end of a word becomes the final form.
bool is_final_sigma(std::u32string_view text, size_t i) {
  size_t before = i;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = i + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_upper(std::string& out, char32_t c) {
  if (const FullCase* f = full_case(c)) {
    out += f->upper;
  } else {
    append_char(out, char32_t(utf8proc_toupper(utf8proc_int32_t(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const FullCase* f = full_case(c)) {
    out += f->title;
  } else {
    append_char(out, char32_t(utf8proc_totitle(utf8proc_int32_t(c))));
  }
}

void append_lower(std::string& out, std::u32string_view text, size_t i) {
  const char32_t c = text[i];
  if (c == 0x3A3) {
    append_char(out, is_final_sigma(text, i) ? 0x3C2 : 0x3C3);
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_char(out, char32_t(utf8proc_tolower(utf8proc_int32_t(c))));
  }
}

}  // namespace

char32_t next_char(std::string_view text, size_t& pos) {
  const uint8_t lead = uint8_t(text[pos]);
  if (lead < 0x80) return text[pos++];
  utf8proc_int32_t c = -1;
  const utf8proc_ssize_t n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + pos,
                                              utf8proc_ssize_t(std::min<size_t>(text.size() - pos, 4)), &c);
  if (n <= 0) return text[pos++] & 0xFF;
  pos += size_t(n);
  return char32_t(c);
}

void append_char(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_int32_t(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), size_t(n));
}

size_t count_chars(std::string_view text) {
  size_t n = 0;
  for (size_t pos = 0; pos < text.size(); ++n) next_char(text, pos);
  return n;
}

size_t byte_offset(std::string_view text, size_t i_char) {
  size_t pos = 0;
  for (size_t i = 0; i < i_char && pos < text.size(); ++i) next_char(text, pos);
  return pos;
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) out.push_back(next_char(text, pos));
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) append_char(out, c);
  return out;
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    utf8proc_int32_t c = -1;
    const utf8proc_ssize_t n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + pos,
                                                utf8proc_ssize_t(std::min<size_t>(text.size() - pos, 4)), &c);
    if (n <= 0) return pos;
    pos += size_t(n);
  }
  return std::nullopt;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_digit(char32_t c) {  // decimals, and the superscript, subscript and circled digits
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490);
}
bool is_numeric(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F);
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2170 && c <= 0x217F);
}
bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}
bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}
bool is_identifier_part(char32_t c) {
  const utf8proc_category_t k = category(c);
  return is_identifier_start(c) || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
         k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC;
}

std::string upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) append_upper(out, next_char(text, pos));
  return out;
}

std::string lower(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < chars.size(); ++i) append_lower(out, chars, i);
  return out;
}

std::string title(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  bool previous_is_cased = false;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (previous_is_cased) {
      append_lower(out, chars, i);
    } else {
      append_title(out, chars[i]);
    }
    previous_is_cased = is_cased(chars[i]);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (i == 0) {
      append_title(out, chars[i]);
    } else {
      append_lower(out, chars, i);
    }
  }
  return out;
}

std::string swapcase(std::string_view text) {
  const std::u32string chars = decode(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (is_upper(chars[i])) {
      append_lower(out, chars, i);
    } else if (is_lower(chars[i])) {
      append_upper(out, chars[i]);
    } else {
      append_char(out, chars[i]);
    }
  }
  return out;
}

std::string casefold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          utf8proc_ssize_t(text.size()), &folded, UTF8PROC_CASEFOLD);
  if (n < 0) return lower(text);
  std::string out(reinterpret_cast<const char*>(folded), size_t(n));
  std::free(folded);
  return out;
}

std::string_view strip(std::string_view text, Side side, const std::string_view* chars) {
  const std::u32string set = chars ? decode(*chars) : std::u32string();
  const auto cuts = [&](char32_t c) { return chars ? set.find(c) != std::u32string::npos : is_space(c); };
  if (side != Side::Right) {
    while (!text.empty()) {
      size_t pos = 0;
      if (!cuts(next_char(text, pos))) break;
      text.remove_prefix(pos);
    }
  }
  if (side != Side::Left) {
    while (!text.empty()) {
      size_t start = text.size() - 1;
      while (start > 0 && text.size() - start < 4 && (uint8_t(text[start]) & 0xC0) == 0x80) --start;
      size_t pos = start;
      const char32_t c = next_char(text, pos);
      if (pos != text.size()) start = text.size() - 1;  // not UTF-8: the last byte stands for itself
      if (!cuts(pos == text.size() ? c : char32_t(uint8_t(text.back())))) break;
      text = text.substr(0, start);
    }
  }
  return text;
}

}  // namespace loft::jinja
