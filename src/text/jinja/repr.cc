// text/jinja: str() and repr() as Python writes them. Enters: a value. Leaves: its text.
#include <charconv>
#include <cmath>

#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"
#include "text/jinja/value.h"

namespace loft::jinja {
namespace {

constexpr int kMaxReprDepth = 2 * kMaxValueDepth;  // a namespace may hold itself
constexpr size_t kMaxReprBytes = size_t(16) << 20;

void append_items(std::string& out, const Items& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], depth);
  }
}

void append_view(std::string& out, const DictView& view, int depth) {
  constexpr const char* kHeads[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out += kHeads[view.which];
  bool first = true;
  for (const auto& [k, v] : view.dict.get<Dict>().items) {
    if (!first) out += ", ";
    first = false;
    if (view.which == DictView::Items) out += '(';
    if (view.which != DictView::Values) append_repr(out, k, depth);
    if (view.which == DictView::Items) out += ", ";
    if (view.which != DictView::Keys) append_repr(out, v, depth);
    if (view.which == DictView::Items) out += ')';
  }
  out += "])";
}

void append_range(std::string& out, const RangeValue& r) {
  out += "range(" + int_text(r.start) + ", " + int_text(r.stop);
  if (r.step != 1) out += ", " + int_text(r.step);
  out += ')';
}

void append_pairs(std::string& out, const Dict& dict, int depth) {
  out += '{';
  bool first = true;
  for (const auto& [k, v] : dict.items) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, k, depth);
    out += ": ";
    append_repr(out, v, depth);
  }
  out += '}';
}

void append_namespace(std::string& out, const Namespace& ns, int depth) {
  out += "<Namespace {";
  for (size_t i = 0; i < ns.attributes.size(); ++i) {
    if (i > 0) out += ", ";
    out += repr_of_string(ns.attributes[i].first) + ": ";
    append_repr(out, ns.attributes[i].second, depth);
  }
  out += "}>";
}

void append_escaped(std::string& out, char32_t c) {
  if (c < 0x100) {
    out += fmt::format("\\x{:02x}", uint32_t(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", uint32_t(c));
  } else {
    out += fmt::format("\\U{:08x}", uint32_t(c));
  }
}

}  // namespace

std::string int_text(Int i) {
  return fmt::format("{}", i);
}

std::string repr_of_real(double f) {
  if (std::isnan(f)) return "nan";
  if (std::isinf(f)) return f < 0 ? "-inf" : "inf";
  char shortest[64];
  const auto end = std::to_chars(shortest, shortest + sizeof shortest, f, std::chars_format::scientific).ptr;
  const std::string_view scientific(shortest, size_t(end - shortest));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* digits = scientific.data() + e + 1 + (scientific[e + 1] == '+');
  std::from_chars(digits, end, exponent);
  if (exponent < -4 || exponent >= 16) {  // the rule of Python's repr
    return fmt::format("{}e{}{:02}", scientific.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  char fixed[64];
  const auto fixed_end = std::to_chars(fixed, fixed + sizeof fixed, f, std::chars_format::fixed).ptr;
  std::string text(fixed, fixed_end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string repr_of_string(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    if (c == char32_t(quote) || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_char(out, c);
    } else {
      append_escaped(out, c);
    }
  }
  out += quote;
  return out;
}

void append_repr(std::string& out, const Value& v, int depth) {
  if (depth > kMaxReprDepth) bad("a value that holds itself cannot be printed");
  if (out.size() > kMaxReprBytes) bad("a value of more than {} MiB is printed", kMaxReprBytes >> 20);
  switch (v.kind) {
    case Kind::Missing:
    case Kind::Undefined:
      out += "Undefined";
      return;
    case Kind::None:
      out += "None";
      return;
    case Kind::Bool:
      out += v.boolean ? "True" : "False";
      return;
    case Kind::Integer:
      out += int_text(v.integer);
      return;
    case Kind::Float:
      out += repr_of_real(v.real);
      return;
    case Kind::String:
      if (v.get<Str>().markup) out += "Markup(";
      out += repr_of_string(v.text());
      if (v.get<Str>().markup) out += ')';
      return;
    case Kind::List:
      out += '[';
      append_items(out, v.items(), depth + 1);
      out += ']';
      return;
    case Kind::Tuple:
      out += '(';
      append_items(out, v.items(), depth + 1);
      out += v.items().size() == 1 ? ",)" : ")";
      return;
    case Kind::Dict:
      append_pairs(out, v.get<Dict>(), depth + 1);
      return;
    case Kind::DictView:
      append_view(out, v.get<DictView>(), depth + 1);
      return;
    case Kind::Range:
      append_range(out, v.get<RangeValue>());
      return;
    case Kind::Namespace:
      append_namespace(out, v.get<Namespace>(), depth + 1);
      return;
    case Kind::Macro:
      out += "<Macro " + (v.get<Macro>().name.empty() ? "anonymous" : repr_of_string(v.get<Macro>().name)) + ">";
      return;
    case Kind::Loop:
      out += fmt::format("<LoopContext {}/{}>", v.get<Loop>().index0 + 1, v.get_mutable<Loop>().length());
      return;
    default:
      bad("a {} has no text that two runs would share", type_name(v));
  }
}

std::string to_text(const Value& v) {
  if (v.is_string()) return v.text();
  if (v.is_undefined() || v.is_missing()) return "";
  std::string out;
  append_repr(out, v);
  return out;
}

std::string to_repr(const Value& v) {
  std::string out;
  append_repr(out, v);
  return out;
}

}  // namespace loft::jinja
