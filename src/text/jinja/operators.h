// text/jinja: Python's operators, subscripts and attributes over values, as the sandbox of jinja2 allows them.
#pragma once
#include <optional>
#include <string>

#include "text/jinja/ast.h"
#include "text/jinja/evaluator.h"

namespace loft::jinja {

Value binary(Budget& budget, Op op, const Value& left, const Value& right);
Value negate(const Value& v);
Value plus(const Value& v);
/// One link of a comparison chain, `in` included.
bool compare_by(Evaluator& ev, Op op, const Value& left, const Value& right);
bool contains(Evaluator& ev, const Value& container, const Value& item);

/// object.name: the attribute or method first, then the item; object[key] the other way round. Undefined when there is
/// neither.
Value get_attribute(const Value& object, const std::string& name);
Value get_item(const Value& object, const Value& key);
/// object[start:stop:step]; None stands for an absent bound.
Value slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step);

std::optional<Int> length_of(const Value& v);  // nullopt: no len()
Value repeat(Budget& budget, const Value& sequence, Int times);
std::string escape_html(std::string_view text);
/// text % arguments, and text.format(...).
std::string percent_format(Budget& budget, const std::string& format, const Value& arguments);
std::string brace_format(Budget& budget, const std::string& format, const Args& args);
/// format(value, spec) of Python, for str, int, float and bool.
std::string format_value(Budget& budget, const Value& v, const std::string& spec);
/// json.dumps(v, ensure_ascii, indent, separators, sort_keys).
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string json_text(Budget& budget, const Value& v, const JsonStyle& style);

/// str.replace and str.splitlines of Python; limit < 0: all.
std::string replace_text(Budget& budget, const std::string& text, const std::string& old, const std::string& fresh,
                         Int limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// Python's int(text, base) and float(text); nullopt where they raise ValueError.
std::optional<Int> parse_int(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);

/// An int argument: bools count, floats do not. Errors: BadRequest with `what` in the message. size_argument is for
/// widths, counts and positions: it stops at 2^100 on both sides, so that a sum of several does not overflow.
Int int_argument(const Value& v, const char* what);
Int size_argument(const Value& v, const char* what);
const std::string& text_argument(const Value& v, const char* what);

}  // namespace loft::jinja
