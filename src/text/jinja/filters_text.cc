// text/jinja: the filters that make text from text.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

// soft_str: a text as it is, anything else printed.
Value soft(Evaluator& ev, const Value& v) {
  return v.is_string() ? v : ev.text(to_text(v));
}

Value method_of_text(Evaluator& ev, const Value& v, const char* name, const Args& args) {
  const Value text = soft(ev, v);
  return find_method(text, name)->run(ev, text, args);
}

Value upper_filter(Evaluator& ev, const Value& v, const Args& args) {
  return method_of_text(ev, v, "upper", args);
}
Value lower_filter(Evaluator& ev, const Value& v, const Args& args) {
  return method_of_text(ev, v, "lower", args);
}
Value capitalize_filter(Evaluator& ev, const Value& v, const Args& args) {
  return method_of_text(ev, v, "capitalize", args);
}
Value trim_filter(Evaluator& ev, const Value& v, const Args& args) {
  return method_of_text(ev, v, "strip", args);
}

Value center_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("center", args, {"width"});
  return method_of_text(ev, v, "center", {{p.has(0) ? p[0] : Value::integer_of(80)}, {}});
}

Value string_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("string", args, {});
  return soft(ev, v);
}

Value safe_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("safe", args, {});
  return ev.text(to_text(v), true);
}

Value escape_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("escape", args, {});
  if (v.is_string() && v.get<Str>().markup) return v;
  return ev.text(escape_html(to_text(v)), true);
}

Value forceescape_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("forceescape", args, {});
  return ev.text(escape_html(to_text(v)), true);
}

Value replace_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  const Int limit = p.is_given(2) ? size_argument(p[2], "replace") : Int(-1);
  return Value::string(replace_text(ev.budget(), to_text(v), to_text(p[0]), to_text(p[1]), limit));
}

// Words begin after spaces, hyphens and opening brackets; not the same as str.title.
Value title_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("title", args, {});
  const std::string text = to_text(v);
  ev.budget().spend_text(text.size());
  std::string out;
  const auto is_break = [](char32_t c) {
    return is_space(c) || std::string_view("-({[<").find(char(c < 0x80 ? c : 0)) != std::string_view::npos;
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const bool breaks = is_break(next_char(text, pos));
    const size_t first_end = pos;
    for (size_t next = pos; next < text.size() && is_break(next_char(text, next)) == breaks;) pos = next;
    out += breaks ? text.substr(start, pos - start)
                  : upper(text.substr(start, first_end - start)) + lower(text.substr(first_end, pos - first_end));
  }
  return Value::string(std::move(out));
}

Value indent_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("indent", args, {"width", "first", "blank"});
  if (!v.is_string()) bad("indent: a string is needed, not '{}'", type_name(v));
  const std::string indention =
      p.has(0) && p[0].is_string()
          ? p[0].text()
          : repeat(ev.budget(), Value::string(" "), p.has(0) ? size_argument(p[0], "indent") : Int(4)).text();
  const bool blank = p.has(2) && truthy(p[2]);
  const std::string text = v.text() + "\n";
  const std::vector<std::string_view> lines = split_lines(text, false);
  ev.budget().spend(int64_t(lines.size()));
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? (p.has(1) && truthy(p[1])) : (blank || !lines[i].empty())) out += indention;
    out += lines[i];
    ev.budget().spend_text(indention.size());
    if (out.size() > kMaxTextBytes) bad("indent: more than {} MiB", kMaxTextBytes >> 20);
  }
  return ev.text(std::move(out), v.get<Str>().markup);
}

Value truncate_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("truncate", args, {"length", "killwords", "end", "leeway"});
  const std::string& text = text_argument(v, "truncate");
  const Int length = p.has(0) ? size_argument(p[0], "truncate") : Int(255);
  const std::string end = p.has(2) ? text_argument(p[2], "truncate") : "...";
  const Int leeway = p.is_given(3) ? size_argument(p[3], "truncate") : Int(5);
  const Int end_chars = Int(count_chars(end));
  if (length < end_chars) bad("expected length >= {}, got {}", int_text(end_chars), int_text(length));
  if (leeway < 0) bad("expected leeway >= 0, got {}", int_text(leeway));
  if (Int(v.get<Str>().n_chars) <= length + leeway) return v;
  std::string cut = text.substr(0, byte_offset(text, size_t(length - end_chars)));
  const size_t space = cut.rfind(' ');
  if (!(p.has(1) && truthy(p[1])) && space != std::string::npos) cut.resize(space);
  return ev.text(cut + end);
}

Value wordcount_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("wordcount", args, {});
  const std::string text = to_text(v);
  ev.budget().spend_text(text.size());
  Int n = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    const bool is_word = c == '_' || is_alnum(c);
    if (is_word && !in_word) ++n;
    in_word = is_word;
  }
  return Value::integer_of(n);
}

void append_quoted(std::string& out, std::string_view text, bool for_query) {
  for (char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", uint8_t(c));
    }
  }
}

Value urlencode_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("urlencode", args, {});
  std::string out;
  const bool is_pairs = v.is(Kind::Dict) || v.is(Kind::List) || v.is(Kind::Tuple) || v.is(Kind::DictView);
  if (!is_pairs) {
    append_quoted(out, to_text(v), false);
    return ev.text(std::move(out));
  }
  const Value items = v.is(Kind::Dict) ? find_method(v, "items")->run(ev, v, {}) : v;
  for (const Value& item : ev.items_of(items)) {
    const Items two = ev.items_of(item);
    if (two.size() != 2) bad("urlencode: a pair has {} items", two.size());
    if (!out.empty()) out += '&';
    append_quoted(out, to_text(two[0]), true);
    out += '=';
    append_quoted(out, to_text(two[1]), true);
    if (out.size() > kMaxTextBytes) bad("urlencode: more than {} MiB", kMaxTextBytes >> 20);
  }
  return ev.text(std::move(out));
}

Value format_filter(Evaluator& ev, const Value& v, const Args& args) {
  if (!args.positional.empty() && !args.keywords.empty()) {
    bad("format: positional and keyword arguments at the same time");
  }
  if (v.is_string() && v.get<Str>().markup) bad("format of a text that passed through safe or escape");
  if (args.keywords.empty())
    return Value::string(percent_format(ev.budget(), to_text(v), Value::tuple(args.positional)));
  Dict named;
  for (const auto& [name, value] : args.keywords) named.set(Value::string(name), value);
  return Value::string(percent_format(ev.budget(), to_text(v), make_dict(std::move(named))));
}

constexpr FilterRow kFilters[] = {
    {"capitalize", capitalize_filter},
    {"center", center_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", forceescape_filter},
    {"format", format_filter},
    {"indent", indent_filter},
    {"lower", lower_filter},
    {"replace", replace_filter},
    {"safe", safe_filter},
    {"string", string_filter},
    {"title", title_filter},
    {"trim", trim_filter},
    {"truncate", truncate_filter},
    {"upper", upper_filter},
    {"urlencode", urlencode_filter},
    {"wordcount", wordcount_filter},
};

}  // namespace

std::span<const FilterRow> text_filters() {
  return kFilters;
}

}  // namespace loft::jinja
