// text: the scanners. Each function is its regex read alternative by alternative; every character belongs to a piece.
#include "text/scanner.h"

#include <climits>

#include "text/unicode.h"
#include "text/utf8.h"

namespace loft {
namespace {

// A place in the text with its decoded character; c is 0 and bits is 0 at the end of the text.
struct Cursor {
  std::string_view text;
  size_t at;
  size_t next;
  char32_t c;
  unsigned bits;

  Cursor(std::string_view whole, size_t begin) : text(whole), at(begin) { load(); }
  bool is_end() const { return at >= text.size(); }
  bool has(unsigned wanted) const { return (bits & wanted) != 0; }
  void step() {
    at = next;
    load();
  }
  void load() {
    next = at;
    c = 0;
    bits = 0;
    if (is_end()) return;
    c = next_code_point(text, next);
    bits = CharTable::get().bits(c);
  }
  void skip(unsigned wanted) {
    while (has(wanted)) step();
  }
};

bool is_line_end(char32_t c) {
  return c == '\r' || c == '\n';
}

// 's|'t|'re|'ve|'m|'ll|'d at `at`; the length, or 0. Without regard to case, the long s (U+017F) is an s.
size_t contraction_length(std::string_view text, size_t at, bool ignore_case) {
  if (at + 1 >= text.size() || text[at] != '\'') return 0;
  const auto lower = [&](size_t i) -> char {
    if (i >= text.size()) return '\0';
    const char c = text[i];
    return ignore_case && c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  };
  const char a = lower(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = lower(at + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return ignore_case && text.substr(at + 1).starts_with("\xC5\xBF") ? 3 : 0;
}

// \s+(?!\S)|\s+ : a run of spaces without its last one, unless the text ends with it or it is a single one.
size_t space_run(const Cursor& start) {
  Cursor end = start;
  size_t last = start.at;
  while (end.has(kIsSpace)) {
    last = end.at;
    end.step();
  }
  return end.is_end() || last == start.at ? end.at : last;
}

size_t next_gpt2(const Scanner&, std::string_view text, size_t at) {
  if (const size_t n = contraction_length(text, at, false)) return at + n;
  Cursor cursor(text, at);
  Cursor body = cursor;
  if (cursor.c == ' ') body.step();
  for (unsigned wanted : {unsigned(kIsLetter), unsigned(kIsNumber)}) {
    if (body.has(wanted)) {
      body.skip(wanted);
      return body.at;
    }
  }
  if (!body.is_end() && !body.has(kIsSpace | kIsLetter | kIsNumber)) {
    while (!body.is_end() && !body.has(kIsSpace | kIsLetter | kIsNumber)) body.step();
    return body.at;
  }
  return space_run(cursor);
}

size_t next_llama3(const Scanner& scanner, std::string_view text, size_t at) {
  if (const size_t n = contraction_length(text, at, true)) return at + n;
  const Cursor start(text, at);
  // [^\r\n\p{L}\p{N}]?\p{L}+
  Cursor body = start;
  if (!is_line_end(start.c) && !start.has(kIsLetter | kIsNumber)) body.step();
  if (!body.has(scanner.letters)) body = start;
  if (body.has(scanner.letters)) {
    body.skip(scanner.letters);
    return body.at;
  }
  // \p{N}{1,max}
  if (start.has(kIsNumber)) {
    Cursor end = start;
    for (int i = 0; i < scanner.max_digits && end.has(kIsNumber); ++i) end.step();
    return end.at;
  }
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const unsigned not_symbol = kIsSpace | kIsNumber | scanner.letters;
  body = start;
  if (start.c == ' ') body.step();
  if (!body.is_end() && !body.has(not_symbol)) {
    while (!body.is_end() && !body.has(not_symbol)) body.step();
    while (is_line_end(body.c)) body.step();
    return body.at;
  }
  // \s*[\r\n]+ : up to the last line end of the run of spaces
  size_t line_end = 0;
  for (Cursor run = start; run.has(kIsSpace); run.step()) {
    if (is_line_end(run.c)) line_end = run.next;
  }
  return line_end > 0 ? line_end : space_run(start);
}

constexpr Scanner kScanners[] = {
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", kIsLetter, INT_MAX,
     next_gpt2},
    {"llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kIsLetter, 3, next_llama3},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kIsLetter, 1, next_llama3},
    {"qwen3.5",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kIsLetter | kIsMark, 1, next_llama3},
};

}  // namespace

std::span<const Scanner> all_scanners() {
  return kScanners;
}

const Scanner& gpt2_scanner() {
  return kScanners[0];
}

const Scanner* find_scanner(std::string_view pattern) {
  for (const Scanner& scanner : kScanners) {
    if (scanner.pattern == pattern) return &scanner;
  }
  return nullptr;
}

}  // namespace loft
