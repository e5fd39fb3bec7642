#include "text/jinja/filters.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/json_value.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

using NumberTest = bool (*)(const Value&);

template <bool (*F)(const Value&)>
bool simple(Evaluator&, const Value& v, const Args& args) {
  const Params p("test", args, {});
  return F(v);
}

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is(Kind::None);
}
bool is_boolean(const Value& v) {
  return v.is(Kind::Bool);
}
bool is_true(const Value& v) {
  return v.is(Kind::Bool) && v.boolean;
}
bool is_false(const Value& v) {
  return v.is(Kind::Bool) && !v.boolean;
}
bool is_integer(const Value& v) {
  return v.is(Kind::Integer);
}
bool is_float(const Value& v) {
  return v.is(Kind::Float);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is(Kind::Dict);
}
bool is_escaped(const Value& v) {
  return v.is_string() && v.get<Str>().markup;
}

bool is_callable(const Value& v) {
  return v.is(Kind::Macro) || v.is(Kind::Function) || v.is(Kind::Method) || v.is(Kind::Joiner) || v.is(Kind::Loop) ||
         v.is_undefined();
}

bool is_sequence(const Value& v) {
  return v.is_string() || v.is(Kind::List) || v.is(Kind::Tuple) || v.is(Kind::Dict) || v.is(Kind::Range) ||
         v.is_undefined();
}

bool is_iterable(const Value& v) {
  return is_sequence(v) || v.is(Kind::DictView) || v.is(Kind::Iterator) || v.is(Kind::Loop);
}

template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
bool is_cased_text(Evaluator&, const Value& v, const Args& args) {
  const Params p("test", args, {});
  const std::string text = to_text(v);
  bool some = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    if (Other(c) || is_title(c)) return false;
    some = some || Wanted(c);
  }
  return some;
}

bool modulo_is(Evaluator& ev, const Value& v, const Value& divisor, Int wanted) {
  return equal(binary(ev.budget(), Op::Mod, v, divisor), Value::integer_of(wanted));
}
bool is_odd(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("odd", args, {});
  return modulo_is(ev, v, Value::integer_of(2), 1);
}
bool is_even(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("even", args, {});
  return modulo_is(ev, v, Value::integer_of(2), 0);
}
bool is_divisible_by(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("divisibleby", args, {"num"}, 1);
  return modulo_is(ev, v, p[0], 0);
}

bool is_same_as(Evaluator&, const Value& v, const Args& args) {
  const Params p("sameas", args, {"other"}, 1);
  if (v.kind != p[0].kind) return false;
  if (v.is_number() || v.is(Kind::None)) return equal(v, p[0]);
  return v.object == p[0].object;
}

bool is_in(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("in", args, {"seq"}, 1);
  return contains(ev, p[0], v);
}

bool is_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("filter", args, {});
  return v.is_string() && find_filter(v.text()) != nullptr;
}
bool is_test(Evaluator&, const Value& v, const Args& args) {
  const Params p("test", args, {});
  return v.is_string() && find_test(v.text()) != nullptr;
}

template <Op O>
bool by_op(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("comparison", args, {"other"}, 1);
  return compare_by(ev, O, v, p[0]);
}

constexpr TestRow kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_integer>},
    {"float", simple<is_float>},
    {"number", simple<is_number>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"sequence", simple<is_sequence>},
    {"iterable", simple<is_iterable>},
    {"callable", simple<is_callable>},
    {"escaped", simple<is_escaped>},
    {"lower", is_cased_text<is_lower, is_upper>},
    {"upper", is_cased_text<is_upper, is_lower>},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible_by},
    {"sameas", is_same_as},
    {"in", is_in},
    {"filter", is_filter},
    {"test", is_test},
    {"==", by_op<Op::Eq>},
    {"eq", by_op<Op::Eq>},
    {"equalto", by_op<Op::Eq>},
    {"!=", by_op<Op::Ne>},
    {"ne", by_op<Op::Ne>},
    {">", by_op<Op::Gt>},
    {"gt", by_op<Op::Gt>},
    {"greaterthan", by_op<Op::Gt>},
    {">=", by_op<Op::Ge>},
    {"ge", by_op<Op::Ge>},
    {"<", by_op<Op::Lt>},
    {"lt", by_op<Op::Lt>},
    {"lessthan", by_op<Op::Lt>},
    {"<=", by_op<Op::Le>},
    {"le", by_op<Op::Le>},
};

Value abs_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("abs", args, {});
  if (v.is(Kind::Float)) return Value::real_of(std::fabs(v.real));
  if (!v.is_integral()) bad("bad operand type for abs(): '{}'", type_name(v));
  return v.as_int() < 0 ? negate(v) : plus(v);
}

Value default_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("default", args, {"default_value", "boolean"});
  const bool is_absent = v.is_undefined() || (p.has(1) && truthy(p[1]) && !truthy(v));
  if (!is_absent) return v;
  return p.has(0) ? p[0] : Value::string("");
}

Value int_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("int", args, {"default", "base"});
  const Value fallback = p.has(0) ? p[0] : Value::integer_of(0);
  if (v.is_undefined()) bad("{}", v.get<Undefined>().message);
  if (v.is_integral()) return Value::integer_of(v.as_int());
  std::optional<double> real;
  if (v.is(Kind::Float)) real = v.real;
  if (v.is_string()) {
    const Int base = p.has(1) ? size_argument(p[1], "base") : Int(10);
    const bool fits = base == 0 || (base >= 2 && base <= 36);
    if (const std::optional<Int> i = fits ? parse_int(v.text(), int(base)) : std::nullopt) return Value::integer_of(*i);
    real = parse_real(v.text());
  }
  if (!real || std::isnan(*real) || std::isinf(*real)) {
    if (v.is(Kind::Float) && std::isinf(v.real)) bad("cannot convert float infinity to integer");
    return fallback;
  }
  if (std::fabs(*real) > 1e38) bad("an integer of more than 128 bits");
  return Value::integer_of(Int(*real));
}

Value float_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("float", args, {"default"});
  if (v.is_undefined()) bad("{}", v.get<Undefined>().message);
  if (v.is_number()) return Value::real_of(v.as_real());
  const std::optional<double> real = v.is_string() ? parse_real(v.text()) : std::nullopt;
  return real ? Value::real_of(*real) : p.has(0) ? p[0] : Value::real_of(0);
}

// Rounds half to even on the exact decimal value, as Python's round does.
double rounded(double f, Int digits) {
  if (!std::isfinite(f) || digits > 300) return f;
  if (digits < -308) return std::copysign(0.0, f);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", f, int(digits)).c_str(), nullptr);
  const double scale = std::pow(10.0, double(-digits));
  return std::nearbyint(f / scale) * scale;
}

Value round_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("round", args, {"precision", "method"});
  const Int digits = p.has(0) ? size_argument(p[0], "round") : Int(0);
  const std::string method = p.has(1) ? text_argument(p[1], "round") : "common";
  if (v.is_undefined()) bad("{}", v.get<Undefined>().message);
  if (!v.is_number()) bad("type {} doesn't define __round__ method", type_name(v));
  if (method == "common") {
    if (v.is(Kind::Float)) return Value::real_of(rounded(v.real, digits));
    if (digits >= 0) return Value::integer_of(v.as_int());
    if (digits < -38) return Value::integer_of(0);
    Int scale = 1;
    for (Int i = 0; i < -digits; ++i) scale *= 10;
    const Int half = scale / 2;
    const Int low = v.as_int() / scale * scale;  // towards zero
    const Int rest = v.as_int() < 0 ? low - v.as_int() : v.as_int() - low;
    const bool away = rest > half || (rest == half && (low / scale) % 2 != 0);
    Int result = low;
    if (away && __builtin_add_overflow(low, v.as_int() < 0 ? -scale : scale, &result))
      bad("an integer of more than 128 bits");
    return Value::integer_of(result);
  }
  if (method != "ceil" && method != "floor") bad("method must be common, ceil or floor");
  if (digits > 300 || digits < -300) bad("round: a precision of {} digits", int_text(digits));
  const double scale = std::pow(10.0, double(digits));
  const double scaled = v.as_real() * scale;
  return Value::real_of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filesizeformat_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("filesizeformat", args, {"binary"});
  const bool is_binary = p.has(0) && truthy(p[0]);
  const std::optional<double> parsed = v.is_number()   ? std::optional(v.as_real())
                                       : v.is_string() ? parse_real(v.text())
                                                       : std::nullopt;
  if (!parsed) bad("filesizeformat: '{}' is no number", type_name(v));
  const double base = is_binary ? 1024 : 1000;
  if (*parsed == 1) return Value::string("1 Byte");
  if (*parsed < base) return Value::string(fmt::format("{} Bytes", int64_t(*parsed)));
  constexpr const char* kPrefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  double unit = base;
  size_t i = 0;
  do {
    unit *= base;
  } while (*parsed >= unit && ++i < std::size(kPrefixes));
  if (i == std::size(kPrefixes)) --i;
  const char* prefix = is_binary && i == 0 ? "K" : kPrefixes[i];
  return Value::string(fmt::format("{:.1f} {}{}B", base * *parsed / unit, prefix, is_binary ? "i" : ""));
}

Value tojson_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.has(0) && truthy(p[0]);
  style.sort_keys = p.has(3) && truthy(p[3]);
  if (p.is_given(1)) {
    style.item_separator.resize(1);  // a comma without its space
    if (p[1].is_string()) {
      style.indent = p[1].text();
    } else {
      const Int n = size_argument(p[1], "indent");
      if (n > 1000) bad("tojson: an indent of {}", int_text(n));
      style.indent = std::string(size_t(std::max<Int>(n, 0)), ' ');
    }
  }
  if (p.is_given(2)) {
    const Items two = ev.items_of(p[2]);
    if (two.size() != 2) bad("tojson: separators are two texts");
    style.item_separator = text_argument(two[0], "separators");
    style.key_separator = text_argument(two[1], "separators");
  }
  return Value::string(json_text(ev.budget(), v, style));
}

// Not one of jinja2's: the templates of DeepSeek name it in branches that a tool call with parsed arguments never
// reaches.
Value from_json_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("from_json", args, {});
  const std::string& text = text_argument(v, "from_json");
  ev.budget().spend_text(text.size());
  try {
    return value_of(parse_ordered_json(text, "from_json", {.max_bytes = kMaxTextBytes, .python_numbers = false}));
  } catch (const Error& e) {
    bad("{}", e.what());
  }
}

Value attr_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("attr", args, {"name"}, 1);
  const std::string& name = text_argument(p[0], "attr");
  const Value found = get_attribute(v, name);
  // Items do not count here, only attributes.
  if (v.is(Kind::Dict) && !found.is(Kind::Method))
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return found;
}

constexpr FilterRow kFilters[] = {
    {"abs", abs_filter},
    {"attr", attr_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"round", round_filter},
    {"tojson", tojson_filter},
    {"from_json", from_json_filter},
    {"filesizeformat", filesizeformat_filter},
};

}  // namespace

const FilterRow* find_filter(std::string_view name) {
  for (const std::span<const FilterRow> rows : {std::span<const FilterRow>(kFilters), text_filters(), item_filters()}) {
    for (const FilterRow& row : rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

const TestRow* find_test(std::string_view name) {
  for (const TestRow& row : kTests) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace loft::jinja
