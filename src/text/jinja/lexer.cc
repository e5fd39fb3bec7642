#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

// Longest first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                           "]",  "(",  ")",  "{",  "}",  "=",  ">", "<", ".", ":", "|", ",", ";"};

constexpr std::string_view closing_of(std::string_view open) {
  return open == "(" ? ")" : open == "[" ? "]" : "}";
}

// \r\n and \r become \n, and one newline at the very end goes, as jinja2 does it.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit_of(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  const char low = char(c | 0x20);
  return base == 16 && low >= 'a' && low <= 'f';
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where) : text_(normalize(source)), where_(where) {}

  std::vector<Token> run() {
    while (pos_ < text_.size()) root();
    add(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& what) { fail(Code::Corrupt, "{}:{}: {}", where_, line_, what); }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text), {}}); }

  std::string_view rest() const { return std::string_view(text_).substr(pos_); }
  bool at(std::string_view s) const { return rest().starts_with(s); }

  void advance_to(size_t pos) {
    line_ += int(std::count(text_.begin() + std::ptrdiff_t(pos_), text_.begin() + std::ptrdiff_t(pos), '\n'));
    line_starting_ = pos > pos_ ? text_[pos - 1] == '\n' : line_starting_;
    pos_ = pos;
  }

  size_t skip_space(size_t pos) const {
    while (pos < text_.size()) {
      size_t next = pos;
      if (!is_space(next_char(text_, next))) break;
      pos = next;
    }
    return pos;
  }

  // The end of "{% raw %}" from the position of "{%", or 0 when something else stands there.
  size_t raw_tag_end(size_t open) const {
    size_t p = open + 2;
    if (p < text_.size() && (text_[p] == '-' || text_[p] == '+')) ++p;
    p = skip_space(p);
    if (text_.compare(p, 3, "raw") != 0) return 0;
    p = skip_space(p + 3);
    if (text_.compare(p, 3, "-%}") == 0) return skip_space(p + 3);
    return text_.compare(p, 2, "%}") == 0 ? p + 2 : 0;
  }

  // Data up to a tag whose sign ('-', '+' or none) says what happens to the space before it.
  void data(size_t end, char sign, bool is_variable) {
    std::string_view text = std::string_view(text_).substr(pos_, end - pos_);
    if (sign == '-') {
      text = strip(text, Side::Right);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_start > 0 || line_starting_) && line_start < text.size() && skip_space(pos_ + line_start) >= end) {
        text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) add(TokenKind::Data, std::string(text));
    advance_to(end);
  }

  void root() {
    size_t open = pos_;
    while ((open = text_.find('{', open)) != std::string::npos) {
      const char next = open + 1 < text_.size() ? text_[open + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    if (open == std::string::npos) {
      add(TokenKind::Data, std::string(rest()));
      advance_to(text_.size());
      return;
    }
    const char kind = text_[open + 1];
    char sign = open + 2 < text_.size() ? text_[open + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    data(open, sign, kind == '{');
    const size_t raw_end = kind == '%' ? raw_tag_end(open) : 0;
    if (raw_end > 0) {
      raw(raw_end);
      return;
    }
    const TokenKind begin = kind == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin;
    if (kind != '#') add(begin, "");
    advance_to(open + (sign ? 3 : 2));
    if (kind == '#') {
      comment();
    } else {
      tag(kind == '{');
    }
  }

  void comment() {
    const size_t end = text_.find("#}", pos_);
    if (end == std::string::npos) error("Missing end of comment tag");
    close_tag(end, "#}", end > pos_ ? text_[end - 1] : '\0');
  }

  // Past the closing mark at `end`; a minus before it takes all space that follows, trim_blocks takes one newline.
  void close_tag(size_t end, std::string_view mark, char sign) {
    size_t p = end + mark.size();
    if (sign == '-') {
      p = skip_space(p);
    } else if (sign != '+' && p < text_.size() && text_[p] == '\n' && mark != "}}") {
      ++p;
    }
    advance_to(p);
  }

  void raw(size_t start) {
    advance_to(start);
    for (size_t open = pos_; (open = text_.find("{%", open)) != std::string::npos; ++open) {
      size_t p = open + 2;
      char sign = p < text_.size() ? text_[p] : '\0';
      if (sign == '-' || sign == '+') {
        ++p;
      } else {
        sign = '\0';
      }
      p = skip_space(p);
      if (text_.compare(p, 6, "endraw") != 0) continue;
      p = skip_space(p + 6);
      const char end_sign = p < text_.size() && (text_[p] == '-' || text_[p] == '+') ? text_[p] : '\0';
      if (end_sign) ++p;
      if (text_.compare(p, 2, "%}") != 0) continue;
      data(open, sign, false);
      close_tag(p, "%}", end_sign);
      return;
    }
    error("Missing end of raw directive");
  }

  bool try_close(bool is_variable) {
    const std::string_view mark = is_variable ? "}}" : "%}";
    const char c = text_[pos_];
    const bool has_sign = (c == '-' || (c == '+' && !is_variable)) && rest().substr(1).starts_with(mark);
    if (!has_sign && !at(mark)) return false;
    add(is_variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, "");
    close_tag(pos_ + (has_sign ? 1 : 0), mark, has_sign ? c : '\0');
    return true;
  }

  void tag(bool is_variable) {
    std::vector<std::string_view> open_brackets;
    while (pos_ < text_.size()) {
      if (open_brackets.empty() && try_close(is_variable)) return;
      const size_t after_space = skip_space(pos_);
      if (after_space > pos_) {
        advance_to(after_space);
        continue;
      }
      if (number() || name() || string()) continue;
      op(open_brackets);
    }
  }

  size_t digits_end(size_t p, int base) const {  // digits with single underscores between them; p when there are none
    size_t end = p;
    while (end < text_.size()) {
      if (is_digit_of(text_[end], base)) {
        ++end;
      } else if (end > p && text_[end] == '_' && end + 1 < text_.size() && is_digit_of(text_[end + 1], base)) {
        end += 2;
      } else {
        break;
      }
    }
    return end;
  }

  size_t float_end() const {  // pos_ when no float stands here
    if (pos_ > 0 && text_[pos_ - 1] == '.') return pos_;
    const size_t whole = digits_end(pos_, 10);
    size_t end = whole;
    if (end < text_.size() && text_[end] == '.' && digits_end(end + 1, 10) > end + 1) end = digits_end(end + 1, 10);
    size_t e = end;
    if (e < text_.size() && (text_[e] | 0x20) == 'e') {
      ++e;
      if (e < text_.size() && (text_[e] == '+' || text_[e] == '-')) ++e;
      if (digits_end(e, 10) > e) end = digits_end(e, 10);
    }
    return end > whole ? end : pos_;
  }

  size_t integer_end(int* base) const {
    *base = 10;
    const char c = text_[pos_];
    const char low = pos_ + 1 < text_.size() ? char(text_[pos_ + 1] | 0x20) : '\0';
    if (c == '0' && (low == 'b' || low == 'o' || low == 'x')) {
      *base = low == 'b' ? 2 : low == 'o' ? 8 : 16;
      size_t start = pos_ + 2;
      if (start < text_.size() && text_[start] == '_') ++start;
      const size_t end = digits_end(start, *base);
      if (end > start) return end;
      *base = 10;
    }
    if (c != '0') return digits_end(pos_, 10);
    size_t end = pos_ + 1;  // decimal zero: zeros only
    while (end < text_.size() &&
           (text_[end] == '0' || (text_[end] == '_' && end + 1 < text_.size() && text_[end + 1] == '0'))) {
      ++end;
    }
    return end;
  }

  bool number() {
    if (!is_digit_of(text_[pos_], 10)) return false;
    const size_t real_end = float_end();
    int base = 10;
    const size_t end = real_end > pos_ ? real_end : integer_end(&base);
    std::string digits = text_.substr(pos_, end - pos_);
    std::erase(digits, '_');
    Token token{
        .kind = real_end > pos_ ? TokenKind::Float : TokenKind::Integer, .line = line_, .text = digits, .value = {}};
    if (token.kind == TokenKind::Float) {
      token.value = Value::real_of(*parse_real(digits));
    } else {
      token.value = Value::integer_of(integer(base == 10 ? digits : digits.substr(2), base));
    }
    tokens_.push_back(std::move(token));
    advance_to(end);
    return true;
  }

  Int integer(const std::string& digits, int base) {
    Int i = 0;
    for (char c : digits) {
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(i, Int(base), &i) || __builtin_add_overflow(i, Int(digit), &i)) {
        fail(Code::Unsupported, "{}:{}: the integer {} has more than 128 bits", where_, line_, digits);
      }
    }
    return i;
  }

  bool name() {
    size_t end = pos_;
    for (size_t p = pos_; p < text_.size(); end = p) {
      const char32_t c = next_char(text_, p);
      const bool is_word = c == '_' || is_alnum(c) || (end > pos_ && is_identifier_part(c));
      if (!is_word) break;
    }
    if (end == pos_) return false;
    const std::string word = text_.substr(pos_, end - pos_);
    size_t p = 0;
    bool fits = is_identifier_start(next_char(word, p));
    while (p < word.size()) fits = is_identifier_part(next_char(word, p)) && fits;
    if (!fits) error("Invalid character in identifier");
    add(TokenKind::Name, word);
    advance_to(end);
    return true;
  }

  bool string() {
    const char quote = text_[pos_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    add(TokenKind::String, unescape(std::string_view(text_).substr(pos_ + 1, end - pos_ - 1)));
    advance_to(end + 1);
    return true;
  }

  char32_t code_point(std::string_view body, size_t& i, size_t n_digits) {
    uint32_t c = 0;
    const std::string_view digits = body.substr(std::min(i, body.size()), n_digits);
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), c, 16);
    if (ec != std::errc() || end != digits.data() + n_digits) error("truncated escape in a string");
    if (c > 0x10FFFF) error("illegal Unicode character in a string");
    if (c >= 0xD800 && c < 0xE000) error("a surrogate in a string cannot be written as UTF-8");
    i += n_digits;
    return c;
  }

  std::string unescape(std::string_view body) {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    for (size_t i = 0; i < body.size();) {
      if (body[i] != '\\') {
        out += body[i++];
        continue;
      }
      const char c = body[++i];
      const size_t letter = kLetters.find(c);
      if (letter != std::string_view::npos) {
        out += kMeanings[letter];
        ++i;
      } else if (c == '\n') {
        ++i;
      } else if (c >= '0' && c <= '7') {
        char32_t octal = 0;
        for (int n = 0; n < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++n)
          octal = octal * 8 + char32_t(body[i++] - '0');
        append_char(out, octal);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        ++i;
        append_char(out, code_point(body, i, c == 'x' ? 2 : c == 'u' ? 4 : 8));
      } else if (c == 'N') {
        fail(Code::Unsupported, "{}:{}: \\N{{...}} in a string", where_, line_);
      } else if (uint8_t(c) >=
                 0x80) {  // jinja2 escapes it first, and the backslash then takes the escape's own backslash
        const char32_t wide = next_char(body, i);
        out += wide < 0x100     ? fmt::format("\\x{:02x}", uint32_t(wide))
               : wide < 0x10000 ? fmt::format("\\u{:04x}", uint32_t(wide))
                                : fmt::format("\\U{:08x}", uint32_t(wide));
      } else {
        out += '\\';
      }
    }
    return out;
  }

  void op(std::vector<std::string_view>& open_brackets) {
    for (std::string_view op : kOperators) {
      if (!at(op)) continue;
      if (op == "(" || op == "[" || op == "{") open_brackets.push_back(closing_of(op));
      if (op == ")" || op == "]" || op == "}") {
        if (open_brackets.empty()) error(fmt::format("unexpected '{}'", op));
        if (open_brackets.back() != op) error(fmt::format("unexpected '{}', expected '{}'", op, open_brackets.back()));
        open_brackets.pop_back();
      }
      add(TokenKind::Operator, std::string(op));
      advance_to(pos_ + op.size());
      return;
    }
    size_t p = pos_;
    const char32_t c = next_char(text_, p);
    error(fmt::format("unexpected char {}", repr_of_string(encode(std::u32string(1, c)))));
  }

  std::string text_;
  std::string_view where_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view where) {
  return Lexer(source, where).run();
}

}  // namespace loft::jinja
