// text/jinja: texts to numbers, as Python's int() and float() read them.
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {

std::optional<Int> parse_int(std::string_view text, int base) {
  text = strip(text, Side::Both);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefix_base = [&]() -> int {
    if (text.size() < 2 || text[0] != '0') return 0;
    const char c = char(text[1] | 0x20);
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
  }();
  bool may_underscore = false;
  if (prefix_base && (base == 0 || base == prefix_base)) {
    base = prefix_base;
    text.remove_prefix(2);
    may_underscore = true;
  } else if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  if (base < 2 || base > 36) bad("int() base must be >= 2 and <= 36, or 0");
  Int i = 0;
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    if (c == '_') {
      if (!may_underscore) return std::nullopt;
      may_underscore = false;
      any = false;
      continue;
    }
    int digit = 99;
    if (c >= '0' && c <= '9') digit = int(c - '0');
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80) digit = int((c | 0x20) - 'a') + 10;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(i, Int(base), &i) || __builtin_add_overflow(i, Int(digit), &i)) {
      bad("an integer of more than 128 bits");
    }
    may_underscore = true;
    any = true;
  }
  if (!any) return std::nullopt;
  return is_negative ? -i : i;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text, Side::Both);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      clean += text[i];
      continue;
    }
    const auto is_digit_at = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) return std::nullopt;
  }
  const std::string low = lower(clean);
  double f = 0;
  if (low == "inf" || low == "infinity") {
    f = HUGE_VAL;
  } else if (low == "nan") {
    f = NAN;
  } else {
    if (clean.empty() || !(clean[0] == '.' || (clean[0] >= '0' && clean[0] <= '9'))) return std::nullopt;
    const auto [end, ec] = std::from_chars(clean.data(), clean.data() + clean.size(), f);
    if (end != clean.data() + clean.size() || ec == std::errc::invalid_argument) return std::nullopt;
    if (ec == std::errc::result_out_of_range) {
      const size_t e = low.find("e-");
      f = e == std::string::npos ? HUGE_VAL : 0;
    }
  }
  return is_negative ? -f : f;
}

}  // namespace loft::jinja
