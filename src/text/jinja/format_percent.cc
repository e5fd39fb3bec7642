// text/jinja: text % arguments.
#include <algorithm>
#include <cmath>

#include "text/jinja/format_spec.h"

namespace loft::jinja {
namespace {

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
    const Int n = size_argument(next_argument(), "* in a format");
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

std::string percent_format(Budget& budget, const std::string& format, const Value& arguments) {
  return PercentFormat(budget, format, arguments).run();
}

}  // namespace loft::jinja
