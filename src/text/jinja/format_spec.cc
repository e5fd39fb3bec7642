#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

std::string grouped(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// printf's e, f and g, without the sign.
std::string printf_real(double f, char type, Int precision, bool alternate) {
  if (precision > kMaxPrecision) bad("a precision of more than {} digits", int_text(kMaxPrecision));
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  std::string out(size_t(precision) + 400, '\0');
  const int n = std::snprintf(out.data(), out.size(), format.c_str(), int(precision), std::fabs(f));
  out.resize(size_t(n));
  return out;
}

// Without a type and with a precision: as g, but a fixed number keeps a digit after the point.
std::string untyped_real(double f, Int precision) {
  if (precision < 0) {
    const std::string text = repr_of_real(std::fabs(f));
    return text;
  }
  const Int digits = std::max<Int>(precision, 1);
  std::string text = printf_real(f, 'g', digits, false);
  if (text.find_first_of(".en") == std::string::npos) {
    if (Int(text.size()) >= digits) {  // no room for the digit after the point: the exponent form
      text = printf_real(f, 'e', digits - 1, false);
      const size_t e = text.find('e');
      std::string mantissa = text.substr(0, e);
      if (mantissa.find('.') != std::string::npos) {
        mantissa.erase(mantissa.find_last_not_of('0') + 1);
        if (mantissa.back() == '.') mantissa.pop_back();
      }
      return mantissa + text.substr(e);
    }
    text += ".0";
  }
  return text;
}

}  // namespace

Int number_at(std::string_view text, size_t& pos, Int fallback) {
  Int n = fallback;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    n = std::max<Int>(n, 0) * 10 + (text[pos] - '0');
    if (n > Int(kMaxTextBytes)) bad("a width of more than {}", kMaxTextBytes);
  }
  return n;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  if (!text.empty()) {
    size_t after_fill = 0;
    next_char(text, after_fill);
    if (after_fill < text.size() && is_align(text[after_fill])) {
      spec.fill = std::string(text.substr(0, after_fill));
      spec.align = text[after_fill];
      pos = after_fill + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      pos = 1;
    }
  }
  const auto take = [&](std::string_view set, char& to) {
    if (pos < text.size() && set.find(text[pos]) != std::string_view::npos) to = text[pos++];
  };
  take("+- ", spec.sign);
  char mark = '\0';
  take("#", mark);
  spec.alternate = mark == '#';
  if (pos < text.size() && text[pos] == '0') {
    ++pos;
    spec.zero = true;
    if (!spec.align) {
      spec.align = '=';
      spec.fill[0] = '0';
    }
  }
  spec.width = number_at(text, pos, 0);
  take(",_", spec.grouping);
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    spec.precision = number_at(text, pos, -1);
    if (spec.precision < 0) bad("Format specifier missing precision");
  }
  take("bcdeEfFgGnosxX%", spec.type);
  if (pos != text.size()) bad("Invalid format specifier");
  return spec;
}

std::string pad(Budget& budget, const std::string& sign, const std::string& body, const Spec& spec,
                char default_align) {
  const Int n = Int(count_chars(sign) + count_chars(body));
  const char align = spec.align ? spec.align : default_align;
  if (spec.width <= n) return sign + body;
  const Int missing = spec.width - n;
  const Value fill = Value::string(spec.fill);
  const auto filler = [&](Int count) { return repeat(budget, fill, count).text(); };
  switch (align) {
    case '<':
      return sign + body + filler(missing);
    case '^':
      return filler(missing / 2) + sign + body + filler(missing - missing / 2);
    case '=':
      return sign + filler(missing) + body;
    default:
      return filler(missing) + sign + body;
  }
}

std::string sign_of(bool is_negative, const Spec& spec) {
  if (is_negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string digits_of(unsigned __int128 i, unsigned base, bool upper) {
  std::string out;
  do {
    const unsigned digit = unsigned(i % base);
    out += char(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    i /= base;
  } while (i > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string format_real(Budget& budget, double f, const Spec& spec) {
  char type = spec.type;
  const bool is_percent = type == '%';
  if (is_percent) {
    f *= 100;
    type = 'f';
  }
  if (type == 'n') type = 'g';
  if (type && std::string_view("eEfFgG").find(type) == std::string_view::npos) {
    bad("Unknown format code '{}' for object of type 'float'", type);
  }
  std::string body = type ? printf_real(f, type, spec.precision < 0 ? Int(6) : spec.precision, spec.alternate)
                          : untyped_real(f, spec.precision);
  if (spec.grouping) {
    const size_t whole = std::min(body.find_first_not_of("0123456789"), body.size());
    body = grouped(body.substr(0, whole), spec.grouping, 3) + body.substr(whole);
  }
  if (is_percent) body += '%';
  return pad(budget, sign_of(std::signbit(f) && !std::isnan(f), spec), body, spec, '>');
}

std::string format_int(Budget& budget, Int i, const Spec& spec) {
  if (spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
    return format_real(budget, double(i), spec);
  }
  if (spec.precision >= 0) bad("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    std::string c;
    if (i < 0 || i > 0x10FFFF) bad("%c arg not in range(0x110000)");
    append_char(c, char32_t(i));
    return pad(budget, "", c, spec, '<');
  }
  unsigned base = 10;
  if (spec.type == 'b') base = 2;
  if (spec.type == 'o') base = 8;
  if (spec.type == 'x' || spec.type == 'X') base = 16;
  if (spec.type == 's') bad("Unknown format code 's' for object of type 'int'");
  const unsigned __int128 size = i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
  std::string body = digits_of(size, base, spec.type == 'X');
  if (spec.grouping) body = grouped(body, spec.grouping, base == 10 ? 3 : 4);
  std::string sign = sign_of(i < 0, spec);
  if (spec.alternate && base != 10) sign.append(1, '0').append(1, spec.type);
  return pad(budget, sign, body, spec, '>');
}

std::string format_text(Budget& budget, const std::string& text, const Spec& spec) {
  if (spec.type && spec.type != 's') bad("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.sign != '-') bad("Sign not allowed in string format specifier");
  if (spec.align == '=' && !spec.zero) bad("'=' alignment not allowed in string format specifier");
  Spec plain = spec;
  if (plain.align == '=') plain.align = '<';
  const std::string body = spec.precision >= 0 ? text.substr(0, byte_offset(text, size_t(spec.precision))) : text;
  return pad(budget, "", body, plain, '<');
}

std::string converted(const Value& v, char conversion) {
  if (conversion == 's') return to_text(v);
  if (conversion != 'r' && conversion != 'a') bad("Unknown conversion specifier '{}'", conversion);
  const std::string text = to_repr(v);
  if (conversion == 'a' && count_chars(text) != text.size()) bad("the conversion 'a' of a text that is not ASCII");
  return text;
}

std::string format_value(Budget& budget, const Value& v, const std::string& spec) {
  if (spec.empty()) return to_text(v);
  if (v.is_string()) return format_text(budget, v.text(), parse_spec(spec));
  if (v.is(Kind::Integer) || v.is(Kind::Bool)) {
    const Spec parsed = parse_spec(spec);
    return format_int(budget, v.as_int(), parsed);
  }
  if (v.is(Kind::Float)) return format_real(budget, v.real, parse_spec(spec));
  bad("unsupported format string passed to {}.__format__", type_name(v));
}

}  // namespace loft::jinja
