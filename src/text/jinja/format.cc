// text/jinja: Python's three ways to format: format(value, spec), text.format(...) and text % arguments.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

constexpr Int kMaxPrecision = 500;  // digits; more is no number that a template shows

struct Spec {
  std::string fill{' '};
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  Int width = 0;
  char grouping = '\0';
  Int precision = -1;
  char type = '\0';
};

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

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

std::string grouped(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
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

// {name.attribute[key]!r:spec} one after the other.
class BraceFormat {
 public:
  BraceFormat(Budget& budget, const Args& args) : budget_(budget), args_(args) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) bad("Max string recursion exceeded");
    std::string out;
    for (size_t pos = 0; pos < format.size();) {
      const char c = format[pos++];
      const bool is_doubled = pos < format.size() && format[pos] == c;
      if (c != '{' && c != '}') {
        out += c;
      } else if (is_doubled) {
        out += c;
        ++pos;
      } else if (c == '}') {
        bad("Single '}}' encountered in format string");
      } else {
        out += field(format, pos, depth);
      }
      if (out.size() > kMaxTextBytes) bad("format: more than {} MiB", kMaxTextBytes >> 20);
    }
    budget_.spend_text(out.size());
    return out;
  }

 private:
  std::string field(std::string_view format, size_t& pos, int depth) {
    size_t end = pos;
    for (int open = 1; open > 0; ++end) {
      if (end == format.size()) bad("expected '}}' before end of string");
      if (format[end] == '{') ++open;
      if (format[end] == '}') --open;
    }
    std::string_view body = format.substr(pos, end - 1 - pos);
    pos = end;
    size_t name_end = 0;
    for (bool in_brackets = false; name_end < body.size(); ++name_end) {
      if (body[name_end] == '[') in_brackets = true;
      if (body[name_end] == ']') in_brackets = false;
      if (!in_brackets && (body[name_end] == '!' || body[name_end] == ':')) break;
    }
    Value v = lookup(body.substr(0, name_end));
    body.remove_prefix(name_end);
    if (body.starts_with('!')) {
      if (body.size() < 2 || (body.size() > 2 && body[2] != ':')) bad("expected ':' after conversion specifier");
      v = Value::string(converted(v, body[1]));
      body.remove_prefix(2);
    }
    if (body.starts_with(':')) body.remove_prefix(1);
    return format_value(budget_, v, run(body, depth + 1));
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, first_end));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      const bool is_attribute = name[0] == '.';
      const size_t end = is_attribute ? std::min(name.find_first_of(".[", 1), name.size()) : name.find(']');
      if (end == std::string_view::npos) bad("Missing ']' in format string");
      const std::string key(name.substr(1, end - 1));
      if (key.empty()) bad("Empty attribute in format string");
      const std::optional<Int> index = is_attribute ? std::nullopt : parse_index(key);
      v = is_attribute ? get_attribute(v, key) : get_item(v, index ? Value::integer_of(*index) : Value::string(key));
      name.remove_prefix(end + (is_attribute ? 0 : 1));
      if (!name.empty() && name[0] != '.' && name[0] != '[')
        bad("Only '.' or '[' may follow ']' in format field specifier");
    }
    return v;
  }

  static std::optional<Int> parse_index(std::string_view text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return parse_int(text, 10);
  }

  Value first(std::string_view name) {
    std::optional<Int> index = parse_index(name);
    if (name.empty()) {
      if (is_manual_) bad("cannot switch from manual field specification to automatic field numbering");
      is_automatic_ = true;
      index = Int(next_++);
    } else if (index) {
      if (is_automatic_) bad("cannot switch from automatic field numbering to manual field specification");
      is_manual_ = true;
    }
    if (index) {
      if (*index >= Int(args_.positional.size())) bad("Replacement index {} out of range", int_text(*index));
      return args_.positional[size_t(*index)];
    }
    for (const auto& [key, value] : args_.keywords) {
      if (key == name) return value;
    }
    bad("format lacks the argument '{}'", name);
  }

  Budget& budget_;
  const Args& args_;
  size_t next_ = 0;
  bool is_automatic_ = false;
  bool is_manual_ = false;
};

class PercentFormat {
 public:
  PercentFormat(Budget& budget, std::string_view format, const Value& arguments)
      : budget_(budget), format_(format), arguments_(arguments) {}

  std::string run() {
    std::string out;
    while (pos_ < format_.size()) {
      const char c = format_[pos_++];
      if (c != '%') {
        out += c;
      } else {
        out += conversion();
      }
      if (out.size() > kMaxTextBytes) bad("%: more than {} MiB", kMaxTextBytes >> 20);
    }
    budget_.spend_text(out.size());
    const bool is_tuple = arguments_.is(Kind::Tuple);
    const bool may_be_left = arguments_.is(Kind::Dict) || arguments_.is(Kind::List);
    if (is_tuple ? used_ < arguments_.items().size() : (!used_ && !may_be_left)) {
      bad("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  const Value& next_argument() {
    if (arguments_.is(Kind::Tuple)) {
      if (used_ >= arguments_.items().size()) bad("not enough arguments for format string");
      return arguments_.items()[used_++];
    }
    if (used_++ > 0) bad("not enough arguments for format string");
    return arguments_;
  }

  char peek() const {
    if (pos_ >= format_.size()) bad("incomplete format");
    return format_[pos_];
  }

  Int number(Int fallback) {
    if (peek() != '*') return number_at(format_, pos_, fallback);
    ++pos_;
    const Int n = int_argument(next_argument(), "* in a format");
    if (n > Int(kMaxTextBytes)) bad("a width of more than {}", kMaxTextBytes);
    return n;
  }

  std::string conversion() {
    const Value* named = nullptr;
    if (peek() == '(') {
      const size_t end = format_.find(')', pos_);
      if (end == std::string_view::npos) bad("incomplete format key");
      if (!arguments_.is(Kind::Dict)) bad("format requires a mapping");
      const std::string key(format_.substr(pos_ + 1, end - pos_ - 1));
      named = arguments_.get<Dict>().find(std::string_view(key));
      if (!named) bad("% lacks the argument '{}'", key);
      pos_ = end + 1;
    }
    Spec spec;
    spec.align = '>';
    bool zero = false;
    for (bool more = true; more;) {
      switch (peek()) {
        case '-':
          spec.align = '<';
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign == '-') spec.sign = ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          zero = true;
          break;
        default:
          more = false;
      }
      if (more) ++pos_;
    }
    spec.width = number(0);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++pos_;
      spec.precision = std::max<Int>(number(0), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++pos_;
    spec.type = format_[pos_++];
    if (spec.type == '%') return "%";
    const Value v = named ? *named : next_argument();
    if (zero && spec.align == '>' && std::string_view("sra").find(spec.type) == std::string_view::npos) {
      spec.align = '=';
      spec.fill[0] = '0';
    }
    return formatted(v, spec);
  }

  std::string formatted(const Value& v, Spec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        const std::string text = converted(v, spec.type);
        spec.type = 's';
        spec.sign = '-';
        return format_text(budget_, text, spec);
      }
      case 'c':
        if (v.is_string() && v.get<Str>().n_chars == 1) return format_text(budget_, v.text(), with(spec, 's'));
        return format_int(budget_, int_argument(v, "%c"), with(spec, 'c'));
      case 'd':
      case 'i':
      case 'u':
        if (!v.is_number()) bad("%{} format: a real number is required, not {}", spec.type, type_name(v));
        return integer(v.is(Kind::Float) ? truncated(v.real) : v.as_int(), with(spec, 'd'));
      case 'o':
      case 'x':
      case 'X':
        return integer(int_argument(v, "%x format"), spec);
      default:
        break;
    }
    if (std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
      bad("unsupported format character '{}'", spec.type);
    }
    if (!v.is_number()) bad("must be real number, not {}", type_name(v));
    return format_real(budget_, v.as_real(), spec);
  }

  // %.3d fills with zeros to three digits.
  std::string integer(Int i, Spec spec) {
    const Int precision = std::exchange(spec.precision, -1);
    if (precision > kMaxPrecision) bad("a precision of more than {} digits", int_text(kMaxPrecision));
    const unsigned base = spec.type == 'o' ? 8 : spec.type == 'd' ? 10 : 16;
    const unsigned __int128 size = i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
    std::string body = digits_of(size, base, spec.type == 'X');
    if (Int(body.size()) < precision) body.insert(0, size_t(precision) - body.size(), '0');
    std::string sign = sign_of(i < 0, spec);
    if (spec.alternate && base != 10) sign.append(1, '0').append(1, spec.type);
    return pad(budget_, sign, body, spec, '>');
  }

  static Int truncated(double f) {
    if (!(std::fabs(f) < 1e38)) bad("cannot convert the float {} to an integer", repr_of_real(f));
    return Int(f);
  }

  static Spec with(Spec spec, char type) {
    spec.type = type;
    return spec;
  }

  Budget& budget_;
  std::string_view format_;
  const Value& arguments_;
  size_t pos_ = 0;
  size_t used_ = 0;
};

}  // namespace

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

std::string brace_format(Budget& budget, const std::string& format, const Args& args) {
  return BraceFormat(budget, args).run(format, 0);
}

std::string percent_format(Budget& budget, const std::string& format, const Value& arguments) {
  return PercentFormat(budget, format, arguments).run();
}

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
