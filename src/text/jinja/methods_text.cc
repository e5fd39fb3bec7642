// text/jinja: the methods of str, over code points.
#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

using View = std::string_view;

bool is_markup(const Value& v) {
  return v.get<Str>().markup;
}

Value same_kind(Evaluator& ev, const Value& self, std::string text) {
  return ev.text(std::move(text), is_markup(self));
}

Value integer(size_t i) {
  return Value::integer_of(Int(i));
}

// The part of a text between two optional code point positions, as text[start:end] has it.
struct Window {
  View text;
  size_t first_char;
  bool exists;  // false when start lies beyond the end
};

Window window(const Value& self, const Params& p, size_t i_start) {
  const Str& s = self.get<Str>();
  const Int n = s.n_chars;
  const auto place = [&](size_t i, Int fallback) {
    if (!p.is_given(i)) return fallback;
    const Int v = size_argument(p[i], "position");
    return v < 0 ? std::max<Int>(v < -n ? 0 : v + n, 0) : v;
  };
  const Int start = place(i_start, 0);
  const Int end = std::min(place(i_start + 1, n), n);
  if (start > n || start > end) return {View(), size_t(0), false};
  const size_t from = byte_offset(s.text, size_t(start));
  const size_t size = byte_offset(View(s.text).substr(from), size_t(end - start));
  return {View(s.text).substr(from, size), size_t(start), true};
}

template <std::string (*F)(View)>
Value mapped(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("str method", args, {});
  ev.budget().spend_text(self.text().size());
  return same_kind(ev, self, F(self.text()));
}

template <Side S>
Value strip_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("strip", args, {"chars"});
  if (!p.is_given(0)) return same_kind(ev, self, std::string(strip(self.text(), S)));
  const View chars = text_argument(p[0], "strip");
  ev.budget().spend_text(self.text().size());
  return same_kind(ev, self, std::string(strip(self.text(), S, &chars)));
}

template <bool (*F)(char32_t)>
Value all_chars(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("str method", args, {});
  ev.budget().spend_text(self.text().size());
  const std::string& s = self.text();
  bool fits = !s.empty();
  for (size_t pos = 0; fits && pos < s.size();) fits = F(next_char(s, pos));
  return Value::boolean_of(fits);
}

// isupper and islower: some cased letter, and none of the other case.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value case_test(Evaluator&, const Value& self, const Args& args) {
  const Params p("str method", args, {});
  bool some = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_char(self.text(), pos);
    if (Other(c) || is_title(c)) return Value::boolean_of(false);
    some = some || Wanted(c);
  }
  return Value::boolean_of(some);
}

Value is_title_text(Evaluator&, const Value& self, const Args& args) {
  const Params p("istitle", args, {});
  bool some = false;
  bool previous_is_cased = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_char(self.text(), pos);
    const bool starts = is_upper(c) || is_title(c);
    if ((starts && previous_is_cased) || (is_lower(c) && !previous_is_cased)) return Value::boolean_of(false);
    previous_is_cased = starts || is_lower(c);
    some = some || previous_is_cased;
  }
  return Value::boolean_of(some);
}

Value is_ascii(Evaluator&, const Value& self, const Args& args) {
  const Params p("isascii", args, {});
  const std::string& s = self.text();
  return Value::boolean_of(std::all_of(s.begin(), s.end(), [](char c) { return uint8_t(c) < 0x80; }));
}

Value is_printable_text(Evaluator&, const Value& self, const Args& args) {
  const Params p("isprintable", args, {});
  for (size_t pos = 0; pos < self.text().size();) {
    if (!is_printable(next_char(self.text(), pos))) return Value::boolean_of(false);
  }
  return Value::boolean_of(true);
}

Value is_identifier(Evaluator&, const Value& self, const Args& args) {
  const Params p("isidentifier", args, {});
  bool fits = !self.text().empty();
  for (size_t pos = 0; fits && pos < self.text().size();) {
    const bool is_first = pos == 0;
    const char32_t c = next_char(self.text(), pos);
    fits = is_first ? is_identifier_start(c) : is_identifier_part(c);
  }
  return Value::boolean_of(fits);
}

template <bool AtEnd>
Value has_affix(Evaluator& ev, const Value& self, const Args& args) {
  const Params p(AtEnd ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  ev.budget().spend_text(self.text().size());
  const Window w = window(self, p, 1);
  const auto fits = [&](const Value& affix) {
    const std::string& s = text_argument(affix, AtEnd ? "endswith" : "startswith");
    return w.exists && (AtEnd ? w.text.ends_with(s) : w.text.starts_with(s));
  };
  if (!p[0].is(Kind::Tuple)) return Value::boolean_of(fits(p[0]));
  return Value::boolean_of(std::any_of(p[0].items().begin(), p[0].items().end(), fits));
}

template <bool FromRight, bool MustExist>
Value find_method_of(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("find", args, {"sub", "start", "end"}, 1);
  ev.budget().spend_text(self.text().size());
  const std::string& sub = text_argument(p[0], "find");
  const Window w = window(self, p, 1);
  const size_t at = !w.exists ? View::npos : FromRight ? w.text.rfind(sub) : w.text.find(sub);
  if (at != View::npos) return integer(w.first_char + count_chars(w.text.substr(0, at)));
  if (MustExist) bad("substring not found");
  return Value::integer_of(-1);
}

size_t count_of(View text, View sub) {
  if (sub.empty()) return count_chars(text) + 1;
  size_t n = 0;
  for (size_t at = 0; (at = text.find(sub, at)) != View::npos; at += sub.size()) ++n;
  return n;
}

Value count_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("count", args, {"sub", "start", "end"}, 1);
  ev.budget().spend_text(self.text().size());
  const Window w = window(self, p, 1);
  return integer(w.exists ? count_of(w.text, text_argument(p[0], "count")) : 0);
}

Value replace_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  const std::string& old = text_argument(p[0], "replace");
  const bool escapes = is_markup(self) && !(p[1].is_string() && is_markup(p[1]));
  const std::string fresh = escapes ? escape_html(text_argument(p[1], "replace")) : text_argument(p[1], "replace");
  const Int limit = p.is_given(2) ? size_argument(p[2], "replace") : Int(-1);
  return same_kind(ev, self, replace_text(ev.budget(), self.text(), old, fresh, limit));
}

Value join_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("join", args, {"iterable"}, 1);
  std::string out;
  bool is_first = true;
  for (const Value& item : ev.items_of(p[0])) {
    if (!item.is_string()) bad("join: a string is needed, not '{}'", type_name(item));
    if (!std::exchange(is_first, false)) out += self.text();
    out += is_markup(self) && !is_markup(item) ? escape_html(item.text()) : item.text();
    ev.budget().spend_text(self.text().size() + item.text().size());
    if (out.size() > kMaxTextBytes) bad("join: more than {} MiB", kMaxTextBytes >> 20);
  }
  return Value::string(std::move(out), is_markup(self));
}

Value pieces(Evaluator& ev, const Value& self, const std::vector<View>& parts) {
  ev.budget().spend_text(self.text().size());
  Items items;
  for (View part : parts) items.push_back(Value::string(std::string(part), is_markup(self)));
  return ev.list(std::move(items));
}

std::vector<View> split_at_space(View text, Int limit) {
  std::vector<View> parts;
  text = strip(text, Side::Left);
  while (!text.empty()) {
    if (limit >= 0 && Int(parts.size()) == limit) {
      parts.push_back(strip(text, Side::Left));
      break;
    }
    size_t end = 0;
    size_t next = 0;
    while (next < text.size() && !is_space(next_char(text, next))) end = next;
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::Left);
  }
  return parts;
}

std::vector<View> rsplit_at_space(View text, Int limit) {
  std::vector<View> parts;
  text = strip(text, Side::Right);
  while (!text.empty()) {
    if (limit >= 0 && Int(parts.size()) == limit) {
      parts.push_back(text);
      break;
    }
    size_t word = 0;  // start of the last word
    for (size_t pos = 0; pos < text.size();) {
      if (is_space(next_char(text, pos))) word = pos;
    }
    parts.push_back(text.substr(word));
    text = strip(text.substr(0, word), Side::Right);
    if (limit < 0) {  // without a limit the order of cutting does not matter
      std::vector<View> rest = split_at_space(text, -1);
      std::reverse(rest.begin(), rest.end());
      parts.insert(parts.end(), rest.begin(), rest.end());
      break;
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<View> split_at(View text, View separator, Int limit) {
  std::vector<View> parts;
  for (;;) {
    const size_t at = limit >= 0 && Int(parts.size()) >= limit ? View::npos : text.find(separator);
    if (at == View::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<View> rsplit_at(View text, View separator, Int limit) {
  std::vector<View> parts;
  for (;;) {
    const size_t at = limit >= 0 && Int(parts.size()) >= limit ? View::npos : text.rfind(separator);
    if (at == View::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool FromRight>
Value split_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("split", args, {"sep", "maxsplit"});
  const Int limit = p.has(1) ? size_argument(p[1], "split") : Int(-1);
  const View text = self.text();
  if (!p.is_given(0)) {
    if (FromRight && limit > 0)
      ev.budget().spend(int64_t(std::min<Int>(limit, Int(text.size()))) * int64_t(text.size() / kStepBytes));
    return pieces(ev, self, FromRight ? rsplit_at_space(text, limit) : split_at_space(text, limit));
  }
  const View separator = text_argument(p[0], "split");
  if (separator.empty()) bad("empty separator");
  return pieces(ev, self, FromRight ? rsplit_at(text, separator, limit) : split_at(text, separator, limit));
}

Value splitlines_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("splitlines", args, {"keepends"});
  return pieces(ev, self, split_lines(self.text(), p.has(0) && truthy(p[0])));
}

template <bool FromRight>
Value partition_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("partition", args, {"sep"}, 1);
  const View text = self.text();
  const View separator = text_argument(p[0], "partition");
  if (separator.empty()) bad("empty separator");
  ev.budget().spend_text(text.size());
  const size_t at = FromRight ? text.rfind(separator) : text.find(separator);
  const auto piece = [&](View v) { return Value::string(std::string(v), is_markup(self)); };
  if (at == View::npos) {
    return FromRight ? Value::tuple({piece(""), piece(""), piece(text)})
                     : Value::tuple({piece(text), piece(""), piece("")});
  }
  return Value::tuple({piece(text.substr(0, at)), piece(separator), piece(text.substr(at + separator.size()))});
}

template <bool AtEnd>
Value remove_affix(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("removeprefix", args, {"affix"}, 1);
  const std::string& affix = text_argument(p[0], "removeprefix");
  View text = self.text();
  if (AtEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!AtEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return same_kind(ev, self, std::string(text));
}

enum class Place { Left, Center, Right };

template <Place P>
Value pad_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("justify", args, {"width", "fillchar"}, 1);
  const Int width = size_argument(p[0], "width");
  const std::string fill = p.has(1) ? text_argument(p[1], "fillchar") : " ";
  if (count_chars(fill) != 1) bad("the fill character must be exactly one character long");
  const Int n = self.get<Str>().n_chars;
  if (width <= n) return self;
  const Int pad = width - n;
  const Int left = P == Place::Left ? Int(0) : P == Place::Right ? pad : pad / 2 + (pad & width & 1);
  const Value filler = Value::string(fill);
  const std::string before = repeat(ev.budget(), filler, left).text();
  const std::string after = repeat(ev.budget(), filler, pad - left).text();
  return same_kind(ev, self, before + self.text() + after);
}

Value zfill_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("zfill", args, {"width"}, 1);
  const Int pad = size_argument(p[0], "width") - Int(self.get<Str>().n_chars);
  if (pad <= 0) return self;
  const View text = self.text();
  const size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  const std::string zeros = repeat(ev.budget(), Value::string("0"), pad).text();
  return same_kind(ev, self, std::string(text.substr(0, sign)) + zeros + std::string(text.substr(sign)));
}

Value expandtabs_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("expandtabs", args, {"tabsize"});
  const Int size = p.has(0) ? size_argument(p[0], "tabsize") : Int(8);
  std::string out;
  Int column = 0;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_char(self.text(), pos);
    if (c != '\t') {
      append_char(out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
      continue;
    }
    const Int n = size > 0 ? size - column % size : Int(0);
    out += repeat(ev.budget(), Value::string(" "), n).text();
    if (out.size() > kMaxTextBytes) bad("expandtabs: more than {} MiB", kMaxTextBytes >> 20);
    column += n;
  }
  return same_kind(ev, self, std::move(out));
}

Value format_method(Evaluator& ev, const Value& self, const Args& args) {
  if (is_markup(self)) bad("format of a text that passed through safe or escape");
  return Value::string(brace_format(ev.budget(), self.text(), args));
}

Value format_map_method(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("format_map", args, {"mapping"}, 1);
  if (is_markup(self)) bad("format of a text that passed through safe or escape");
  if (!p[0].is(Kind::Dict)) bad("format_map: a dict is needed, not '{}'", type_name(p[0]));
  Args named;
  for (const auto& [k, v] : p[0].get<Dict>().items) {
    if (k.is_string()) named.keywords.emplace_back(k.text(), v);
  }
  return Value::string(brace_format(ev.budget(), self.text(), named));
}

constexpr MethodRow kMethods[] = {
    {Kind::String, "capitalize", mapped<capitalize>},
    {Kind::String, "casefold", mapped<casefold>},
    {Kind::String, "center", pad_method<Place::Center>},
    {Kind::String, "count", count_method},
    {Kind::String, "endswith", has_affix<true>},
    {Kind::String, "expandtabs", expandtabs_method},
    {Kind::String, "find", find_method_of<false, false>},
    {Kind::String, "format", format_method},
    {Kind::String, "format_map", format_map_method},
    {Kind::String, "index", find_method_of<false, true>},
    {Kind::String, "isalnum", all_chars<is_alnum>},
    {Kind::String, "isalpha", all_chars<is_alpha>},
    {Kind::String, "isascii", is_ascii},
    {Kind::String, "isdecimal", all_chars<is_decimal>},
    {Kind::String, "isdigit", all_chars<is_digit>},
    {Kind::String, "isidentifier", is_identifier},
    {Kind::String, "islower", case_test<is_lower, is_upper>},
    {Kind::String, "isnumeric", all_chars<is_numeric>},
    {Kind::String, "isprintable", is_printable_text},
    {Kind::String, "isspace", all_chars<is_space>},
    {Kind::String, "istitle", is_title_text},
    {Kind::String, "isupper", case_test<is_upper, is_lower>},
    {Kind::String, "join", join_method},
    {Kind::String, "ljust", pad_method<Place::Left>},
    {Kind::String, "lower", mapped<lower>},
    {Kind::String, "lstrip", strip_method<Side::Left>},
    {Kind::String, "partition", partition_method<false>},
    {Kind::String, "removeprefix", remove_affix<false>},
    {Kind::String, "removesuffix", remove_affix<true>},
    {Kind::String, "replace", replace_method},
    {Kind::String, "rfind", find_method_of<true, false>},
    {Kind::String, "rindex", find_method_of<true, true>},
    {Kind::String, "rjust", pad_method<Place::Right>},
    {Kind::String, "rpartition", partition_method<true>},
    {Kind::String, "rsplit", split_method<true>},
    {Kind::String, "rstrip", strip_method<Side::Right>},
    {Kind::String, "split", split_method<false>},
    {Kind::String, "splitlines", splitlines_method},
    {Kind::String, "startswith", has_affix<false>},
    {Kind::String, "strip", strip_method<Side::Both>},
    {Kind::String, "swapcase", mapped<swapcase>},
    {Kind::String, "title", mapped<title>},
    {Kind::String, "upper", mapped<upper>},
    {Kind::String, "zfill", zfill_method},
};

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<View> lines;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    const char32_t c = next_char(text, pos);
    if (!is_line_break(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(start, (keep_ends ? pos : at) - start));
    start = pos;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string replace_text(Budget& budget, const std::string& text, const std::string& old, const std::string& fresh,
                         Int limit) {
  budget.spend_text(text.size());
  size_t n = count_of(text, old);
  if (limit >= 0 && Int(n) > limit) n = size_t(limit);
  if (n > 0 && fresh.size() > kMaxTextBytes / n) bad("replace: more than {} MiB", kMaxTextBytes >> 20);
  budget.spend_text(text.size() + n * fresh.size());
  std::string out;
  size_t pos = 0;
  for (size_t i = 0; i < n; ++i) {
    if (old.empty()) {  // before every code point, and at the end
      out += fresh;
      const size_t start = pos;
      if (pos < text.size()) next_char(text, pos);
      out.append(text, start, pos - start);
      continue;
    }
    const size_t at = text.find(old, pos);
    out.append(text, pos, at - pos);
    out += fresh;
    pos = at + old.size();
  }
  out.append(text, pos);
  return out;
}

std::span<const MethodRow> text_methods() {
  return kMethods;
}

}  // namespace loft::jinja
