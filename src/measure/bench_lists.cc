#include "measure/bench_lists.h"

#include "core/error.h"
#include "core/options.h"

namespace loft {
namespace {

struct Reader {
  std::string_view flag;
  int64_t lo, hi;

  [[noreturn]] void refuse(std::string_view text) const {
    fail(Code::BadRequest, "{}: found '{}', wanted whole numbers in {}..{}, as 512 or 1,2 or 1-8*2 or 100-400+100",
         flag, text, lo, hi);
  }
  int64_t number(std::string_view text, std::string_view whole) const {
    uint64_t value = 0;
    if (!parse_whole(text, uint64_t(lo), uint64_t(hi), value)) refuse(whole);
    return int64_t(value);
  }
  int64_t step(std::string_view text, int64_t least, std::string_view whole) const {
    uint64_t value = 0;
    if (!parse_whole(text, uint64_t(least), INT32_MAX, value)) refuse(whole);
    return int64_t(value);
  }
};

void add_range(const Reader& reader, std::string_view text, std::vector<int64_t>& out) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return out.push_back(reader.number(text, text));
  const size_t sign = text.find_first_of("+*", dash);
  const int64_t first = reader.number(text.substr(0, dash), text);
  const int64_t last = reader.number(text.substr(dash + 1, sign - dash - 1), text);
  const bool multiplies = sign != std::string_view::npos && text[sign] == '*';
  const int64_t by = sign == std::string_view::npos ? 1 : reader.step(text.substr(sign + 1), multiplies ? 2 : 1, text);
  if (first > last || (multiplies && first == 0)) reader.refuse(text);
  for (int64_t value = first; value <= last; value = multiplies ? value * by : value + by) {
    out.push_back(value);
    if (out.size() > kMaxListed)
      fail(Code::BadRequest, "{}: '{}' makes more than {} numbers", reader.flag, text, kMaxListed);
  }
}

}  // namespace

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<int64_t> parse_numbers(std::string_view flag, std::span<const std::string> texts, int64_t lo, int64_t hi) {
  const Reader reader{flag, lo, hi};
  std::vector<int64_t> out;
  for (const std::string& text : texts) {
    for (const std::string& part : split_text(text, ',')) add_range(reader, part, out);
  }
  return out;
}

std::vector<std::pair<int64_t, int64_t>> parse_pairs(std::string_view flag, std::span<const std::string> texts,
                                                     int64_t lo, int64_t hi) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const std::string& text : texts) {
    const std::vector<std::string> parts = split_text(text, ',');
    if (parts.size() != 2) fail(Code::BadRequest, "{}: found '{}', wanted a pair as 512,128", flag, text);
    const Reader reader{flag, lo, hi};
    out.emplace_back(reader.number(parts[0], text), reader.number(parts[1], text));
  }
  return out;
}

std::vector<std::pair<int64_t, int64_t>> parse_shapes(std::string_view flag, std::span<const std::string> texts) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const std::string& text : texts) {
    for (const std::string& part : split_text(text, ',')) {
      const std::vector<std::string> sides = split_text(part, 'x');
      uint64_t n = 0, k = 0;
      if (sides.size() != 2 || !parse_whole(sides[0], 1, 1 << 24, n) || !parse_whole(sides[1], 1, 1 << 24, k)) {
        fail(Code::BadRequest, "{}: found '{}', wanted outputs x inputs as 4096x4096", flag, part);
      }
      out.emplace_back(int64_t(n), int64_t(k));
    }
  }
  return out;
}

std::vector<std::string> split_words(std::string_view flag, std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\'' || c == '"') {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) fail(Code::BadRequest, "{}: '{}' has a quote without its end", flag, text);
  return words;
}

}  // namespace loft
