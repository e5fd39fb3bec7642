// text: UTF-8 decoding. The table of allowed second bytes is table 3-7 of the Unicode standard, section 3.9.
#include "text/utf8.h"

namespace loft {
namespace {

struct LeadByte {
  unsigned char first, last;  // lead bytes of this row
  int length;                 // bytes of the character
  unsigned char low, high;    // allowed second bytes
};
constexpr LeadByte kLeadBytes[] = {
    {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F},
    {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

const LeadByte* lead_byte(unsigned char b) {
  for (const LeadByte& row : kLeadBytes) {
    if (b >= row.first && b <= row.last) return &row;
  }
  return nullptr;
}

bool continues(const LeadByte& lead, int index, unsigned char b) {
  return index == 1 ? b >= lead.low && b <= lead.high : b >= 0x80 && b <= 0xBF;
}

}  // namespace

size_t valid_utf8_length(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const auto b = static_cast<unsigned char>(bytes[at]);
    if (b < 0x80) {
      ++at;
      continue;
    }
    const LeadByte* lead = lead_byte(b);
    if (!lead || bytes.size() - at < size_t(lead->length)) return at;
    for (int i = 1; i < lead->length; ++i) {
      if (!continues(*lead, i, static_cast<unsigned char>(bytes[at + size_t(i)]))) return at;
    }
    at += size_t(lead->length);
  }
  return at;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(static_cast<unsigned char>(b))); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
  if (c < 0x10000) return put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
  put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
}

char32_t previous_code_point(std::string_view valid, size_t& at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(valid[at]) & 0xC0) == 0x80);
  size_t copy = at;
  return next_code_point(valid, copy);
}

std::u32string to_code_points(std::string_view valid) {
  std::u32string result;
  result.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) result.push_back(next_code_point(valid, at));
  return result;
}

std::string to_utf8(std::u32string_view code_points) {
  std::string result;
  result.reserve(code_points.size());
  for (char32_t c : code_points) append_utf8(result, c);
  return result;
}

bool is_valid_utf8(std::string_view bytes) {
  return valid_utf8_length(bytes) == bytes.size();
}

void Utf8Replacer::push_byte(unsigned char b, std::string& out) {
  if (n_held_ > 0) {
    const LeadByte* lead = lead_byte(static_cast<unsigned char>(held_[0]));
    if (continues(*lead, n_held_, b)) {
      held_[n_held_++] = static_cast<char>(b);
      if (n_held_ == lead->length) {
        out.append(held_, size_t(n_held_));
        n_held_ = 0;
      }
      return;
    }
    finish(out);
  }
  if (b < 0x80) {
    out.push_back(static_cast<char>(b));
  } else if (lead_byte(b)) {
    held_[n_held_++] = static_cast<char>(b);
  } else {
    out.append(kReplacement);
  }
}

void Utf8Replacer::push(std::string_view bytes, std::string& out) {
  size_t at = 0;
  if (n_held_ == 0) {
    at = valid_utf8_length(bytes);
    out.append(bytes.substr(0, at));
  }
  for (; at < bytes.size(); ++at) push_byte(static_cast<unsigned char>(bytes[at]), out);
}

void Utf8Replacer::finish(std::string& out) {
  if (n_held_ > 0) out.append(kReplacement);
  n_held_ = 0;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Replacer replacer;
  replacer.push(bytes, out);
  replacer.finish(out);
  return out;
}

}  // namespace loft
