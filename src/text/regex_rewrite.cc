// text: rewrites a regular expression of tokenizer.json (Oniguruma, Ruby syntax) to one of PCRE2 over bytes, each byte
// a class of characters. Sets, brackets and case are computed here; what is read differently is translated or refused
// by name.
#include <fmt/format.h>

#include "core/error.h"
#include "text/code_set.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace loft {
namespace {

constexpr int kMaxNesting = 32;
constexpr size_t kMaxSets = 250;
// In brackets \w leaves out these digits and fractions of Latin-1, as Oniguruma does.
constexpr CodeRange kWordOutsideBrackets[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
// Without regard to case these match two letters or three, as U+00DF matches "ss"; sets of single characters cannot say
// so.
constexpr CodeRange kFoldToSeveral[] = {{0xDF, 0xDF},     {0x130, 0x130},   {0x149, 0x149},  {0x1F0, 0x1F0},
                                        {0x390, 0x390},   {0x3B0, 0x3B0},   {0x587, 0x587},  {0x1E96, 0x1E9E},
                                        {0x1F50, 0x1FFF}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}};

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string_view where) : where_(where), in_(to_code_points(pattern)) {}

  ByteRegex run() {
    while (!at_end()) element();
    if (!groups_.empty()) refuse("a group that is not closed");
    ByteRegex result{.pattern = "(*LF)", .classes = ByteClasses(sets_)};
    if (!result.classes.is_valid()) refuse("too many different characters");
    for (size_t i = 0; i < out_.size(); ++i) {
      if (out_[i] != kSetMark) {
        result.pattern += out_[i];
        continue;
      }
      result.pattern += result.classes.bracket(static_cast<unsigned char>(out_[i + 1]), out_[i + 2] == '^');
      i += 2;
    }
    return result;
  }

 private:
  bool at_end() const { return at_ >= in_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : 0; }
  char32_t take() {
    if (at_end()) refuse("its sudden end");
    return in_[at_++];
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(Code::Unsupported, "{}: the regular expression \"{}\" has {} near character {}, which is not supported",
         where_, to_utf8(in_), what, at_);
  }
  void begin_atom() { atom_ = out_.size(); }

  static bool is_meta(char32_t c) {
    return c < 0x80 && std::string_view("\\^$.|?*+()[]{}-&#~ /\"'`!%,:;<=>@_").find(char(c)) != std::string_view::npos;
  }
  // A set stands in out_ as three bytes: the mark, its index, and ^ or a space.
  std::string set_reference(CodeSet set, bool negated) {
    if (ignore_case_) set = set.with_case_variants();
    size_t index = 0;
    while (index < sets_.size() && !(sets_[index] == set)) ++index;
    if (index == kMaxSets) refuse("too many different sets");
    if (index == sets_.size()) sets_.push_back(std::move(set));
    return {kSetMark, static_cast<char>(static_cast<unsigned char>(index)), negated ? '^' : ' '};
  }
  void set_atom(CodeSet set, bool negated) {
    begin_atom();
    out_ += set_reference(std::move(set), negated);
  }
  void literal(char32_t c) {
    for (const CodeRange& range : kFoldToSeveral) {
      if (ignore_case_ && c >= range.first && c <= range.last) refuse("a letter that is several in another case");
    }
    CodeSet set;
    set.add(c, c);
    set_atom(std::move(set), false);
  }

  void element() {
    const char32_t c = take();
    switch (c) {
      case '\\':
        return escape();
      case '[': {
        bool negated = false;
        CodeSet set = bracket_body(0, negated);
        return set_atom(std::move(set), negated);
      }
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '{':
        return interval();
      case '.': {
        CodeSet line_end;
        if (!dot_takes_all_) line_end.add('\n', '\n');
        return set_atom(std::move(line_end), true);
      }
      case '^':
      case '$':
        begin_atom();
        [[fallthrough]];
      case '?':
      case '*':
      case '+':
      case '|':
        out_ += char(c);
        return;
      default:
        return literal(c);
    }
  }

  void close_group() {
    if (groups_.empty()) refuse("a ')' without its '('");
    out_ += ')';
    atom_ = groups_.back().start;
    ignore_case_ = groups_.back().ignore_case;
    dot_takes_all_ = groups_.back().dot_takes_all;
    groups_.pop_back();
  }

  // {n}, {n,}, {n,m}, {,m}; anything else is a plain brace. A + behind it repeats once more, it is not possessive.
  void interval() {
    const size_t start = at_;
    const auto number = [&] {
      std::string digits;
      while (is_digit(peek())) digits += char(take());
      return digits;
    };
    const std::string low = number();
    const bool has_comma = peek() == ',';
    if (has_comma) ++at_;
    const std::string high = has_comma ? number() : "";
    if (peek() != '}' || (low.empty() && high.empty()) || low.size() > 4 || high.size() > 4) {
      at_ = start;
      return literal('{');
    }
    ++at_;
    out_ += '{' + (low.empty() ? "0" : low) + (has_comma ? "," + high : "") + '}';
    if (peek() == '?' && !has_comma) refuse("an interval {n}?");
    if (peek() == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
  }

  void open_group() {
    if (groups_.size() >= kMaxNesting) refuse("groups nested too deeply");
    const size_t start = out_.size();
    std::string head = "(";
    if (peek() == '?') {
      ++at_;
      head += '?';
      const char32_t kind = take();
      if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
        head += char(kind);
      } else if (kind == '<' && (peek() == '=' || peek() == '!')) {
        head += '<';
        head += char(take());
      } else {
        --at_;
        return flags(start);
      }
    }
    out_ += head;
    groups_.push_back({start, ignore_case_, dot_takes_all_});
  }

  // (?i: and (?m: and their like, and (?i) at the very start; m of Ruby lets the dot take a line feed.
  void flags(size_t start) {
    const Group outer{start, ignore_case_, dot_takes_all_};
    bool on = true;
    for (; peek() == 'i' || peek() == 'm' || peek() == '-'; ++at_) {
      if (peek() == '-') on = false;
      if (peek() == 'i') ignore_case_ = on;
      if (peek() == 'm') dot_takes_all_ = on;
    }
    const char32_t close = take();
    if (close == ')' && out_.empty() && groups_.empty()) return;
    if (close != ':') refuse("an unknown kind of group, or a flag within the pattern,");
    out_ += "(?:";
    groups_.push_back(outer);
  }

  char32_t hex(size_t most) {
    char32_t value = 0;
    size_t n = 0;
    for (; n < most; ++n) {
      const char32_t c = peek();
      const int digit = is_digit(c)              ? int(c - '0')
                        : (c >= 'a' && c <= 'f') ? int(c - 'a') + 10
                        : (c >= 'A' && c <= 'F') ? int(c - 'A') + 10
                                                 : -1;
      if (digit < 0) break;
      value = value * 16 + char32_t(digit);
      ++at_;
    }
    if (n == 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) refuse("a bad code point");
    return value;
  }

  // The character of an escape such as \n, \x{..}, \u....; nullopt: it is no single character.
  std::optional<char32_t> escaped_char(char32_t c) {
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case 'a':
        return U'\a';
      case 'e':
        return char32_t(0x1B);
      case 'u':
        return hex(4);
      case 'x':
        if (peek() == '{') {
          ++at_;
          const char32_t value = hex(6);
          if (take() != '}') refuse("a bad code point");
          return value;
        }
        return hex(2);
      default:
        break;
    }
    if (c >= 0x80 || is_meta(c)) return c;
    return std::nullopt;
  }

  // The set of \p{..}, \s and their like; nullopt: the escape is no class.
  std::optional<CodeSet> escaped_set(char32_t c) {
    constexpr std::pair<char32_t, std::string_view> kLetters[] = {
        {'s', "space"}, {'d', "digit"}, {'w', "word"}, {'h', "xdigit"}};
    for (const auto& [letter, name] : kLetters) {
      if (c == letter) return CodeSet::named(name);
      if (c == letter - 32) return CodeSet::named(name)->complement();
    }
    if (c != 'p' && c != 'P') return std::nullopt;
    if (take() != '{') refuse("a property without braces");
    bool negated = c == 'P';
    if (peek() == '^') {
      ++at_;
      negated = !negated;
    }
    std::u32string name;
    while (peek() != '}') name += take();
    ++at_;
    // As a property, Punct holds no symbols; as a POSIX class it does.
    const bool is_punct = name == U"Punct" || name == U"punct";
    const std::optional<CodeSet> set = CodeSet::named(is_punct ? "punctuation" : to_utf8(name));
    if (!set) refuse("the property " + to_utf8(name));
    return negated ? set->complement() : *set;
  }

  void escape() {
    const char32_t c = take();
    if (c == 'A' || c == 'z' || c == 'Z') {
      begin_atom();
      out_ += '\\';
      out_ += char(c);
      return;
    }
    if (c == 'b' || c == 'B') {
      const std::string w = set_reference(*CodeSet::named("word"), false);
      begin_atom();
      out_ += c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w)
                       : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w);
      return;
    }
    if (const std::optional<CodeSet> set = escaped_set(c)) {
      // The negated form keeps its meaning without regard to case.
      const bool negated = c == 'P' || c == 'S' || c == 'D' || c == 'W' || c == 'H';
      return set_atom(negated ? set->complement() : *set, negated);
    }
    if (const std::optional<char32_t> one = escaped_char(c)) return literal(*one);
    refuse("the escape \\" + to_utf8(std::u32string(1, c)));
  }

  // One member of a bracket that may begin a range.
  char32_t bracket_char() {
    const char32_t c = take();
    if (c != '\\') return c;
    const char32_t e = take();
    if (e == 'b') return U'\b';
    const std::optional<char32_t> one = escaped_char(e);
    if (!one) refuse("the escape \\" + to_utf8(std::u32string(1, e)) + " in brackets");
    return *one;
  }

  static CodeSet word_in_brackets() {
    CodeSet outside;
    for (const CodeRange& range : kWordOutsideBrackets) outside.add(range.first, range.last);
    return CodeSet::named("word")->intersection(outside.complement());
  }

  bool posix_class(CodeSet& set) {
    if (peek() != '[' || peek(1) != ':') return false;
    const size_t end = in_.find(U":]", at_ + 2);
    if (end == std::u32string::npos) return false;
    std::u32string name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = !name.empty() && name[0] == '^';
    if (negated) name.erase(0, 1);
    std::optional<CodeSet> known = name == U"word" ? word_in_brackets() : CodeSet::named(to_utf8(name));
    if (!known) refuse("the class [:" + to_utf8(name) + ":]");
    set.add(negated ? known->complement() : *known);
    at_ = end + 2;
    return true;
  }

  // Behind '[' up to its ']': members, ranges, nested brackets, && for intersection. `negated` is left to the caller,
  // so that caseless matching folds the members and not their complement.
  CodeSet bracket_body(int depth, bool& negated) {
    if (depth >= kMaxNesting) refuse("brackets nested too deeply");
    negated = peek() == '^';
    if (negated) ++at_;
    CodeSet set;
    std::optional<CodeSet> left;
    bool first = true;
    while (first || peek() != ']') {
      if (peek() == '&' && peek(1) == '&') {
        at_ += 2;
        left = left ? left->intersection(set) : set;
        set = CodeSet();
        first = false;
        continue;
      }
      first = false;
      if (posix_class(set)) continue;
      if (peek() == '[') {
        ++at_;
        bool inner_negated = false;
        const CodeSet inner = bracket_body(depth + 1, inner_negated);
        set.add(inner_negated ? inner.complement() : inner);
        continue;
      }
      if (peek() == '\\') {
        const size_t back = at_;
        ++at_;
        const char32_t letter = take();
        if (letter == 'w' || letter == 'W') {
          const CodeSet word = word_in_brackets();
          set.add(letter == 'w' ? word : word.complement());
          continue;
        }
        if (const std::optional<CodeSet> members = escaped_set(letter)) {
          set.add(*members);
          continue;
        }
        at_ = back;
      }
      const char32_t low = bracket_char();
      char32_t high = low;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (peek() == '[') refuse("a range to a bracket");
        high = bracket_char();
        if (high < low) refuse("a range that runs backwards");
      }
      set.add(low, high);
    }
    ++at_;
    return left ? left->intersection(set) : set;
  }

  struct Group {
    size_t start;                     // of the group in out_
    bool ignore_case, dot_takes_all;  // outside it
  };
  static constexpr char kSetMark = '\1';

  std::string_view where_;
  std::u32string in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;
  std::vector<Group> groups_;
  std::vector<CodeSet> sets_;
  bool ignore_case_ = false, dot_takes_all_ = false;
};

}  // namespace

ByteRegex rewrite_for_pcre2(std::string_view pattern, std::string_view where) {
  return Rewriter(pattern, where).run();
}

}  // namespace loft
