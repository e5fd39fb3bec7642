#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

const char* op_text(Op op) {
  constexpr const char* kTexts[] = {
      "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kTexts[size_t(op)];
}

[[noreturn]] void overflow() {
  bad("an integer of more than 128 bits");
}

Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

Value int_power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) bad("0.0 cannot be raised to a negative power");
    return Value::real_of(std::pow(double(base), double(exponent)));
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value::integer_of(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer_of(exponent % 2 == 0 ? 1 : -1);
  for (Int i = 0; i < exponent; ++i) {  // overflows after 127 turns at most
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return Value::integer_of(result);
}

Value int_binary(Op op, Int a, Int b) {
  Int r = 0;
  switch (op) {
    case Op::Add:
      if (__builtin_add_overflow(a, b, &r)) overflow();
      return Value::integer_of(r);
    case Op::Sub:
      if (__builtin_sub_overflow(a, b, &r)) overflow();
      return Value::integer_of(r);
    case Op::Mul:
      if (__builtin_mul_overflow(a, b, &r)) overflow();
      return Value::integer_of(r);
    case Op::Div:
      if (b == 0) bad("division by zero");
      return Value::real_of(double(a) / double(b));
    case Op::FloorDiv:
    case Op::Mod:
      if (b == 0) bad("integer division or modulo by zero");
      if (b == -1) {  // the smallest integer has no negative
        if (__builtin_sub_overflow(Int(0), a, &r)) overflow();
        return Value::integer_of(op == Op::Mod ? 0 : r);
      }
      return Value::integer_of(op == Op::FloorDiv ? floor_div(a, b) : a - floor_div(a, b) * b);
    default:
      return int_power(a, b);
  }
}

Value real_binary(Op op, double a, double b) {
  switch (op) {
    case Op::Add:
      return Value::real_of(a + b);
    case Op::Sub:
      return Value::real_of(a - b);
    case Op::Mul:
      return Value::real_of(a * b);
    case Op::Div:
      if (b == 0) bad("float division by zero");
      return Value::real_of(a / b);
    case Op::Pow:
      if (a == 0 && b < 0) bad("0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) bad("a complex number");
      return Value::real_of(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) bad("{}", op == Op::Mod ? "float modulo" : "float floor division by zero");
  double mod = std::fmod(a, b);
  if (mod != 0 && (mod < 0) != (b < 0)) mod += b;
  if (mod == 0) mod = std::copysign(0.0, b);
  if (op == Op::Mod) return Value::real_of(mod);
  const double div = (a - mod) / b;
  const double whole = std::floor(div);
  return Value::real_of(div == 0 ? std::copysign(0.0, a / b) : (div - whole > 0.5 ? whole + 1 : whole));
}

Value add_texts(Budget& budget, const Value& left, const Value& right) {
  const Str& a = left.get<Str>();
  const Str& b = right.get<Str>();
  const bool markup = a.markup || b.markup;
  const std::string escaped = markup && a.markup != b.markup ? escape_html(a.markup ? b.text : a.text) : "";
  const std::string& first = markup && !a.markup ? escaped : a.text;
  const std::string& second = markup && !b.markup ? escaped : b.text;
  budget.spend_text(first.size() + second.size());
  return Value::string(first + second, markup);
}

Value add_sequences(Budget& budget, const Value& left, const Value& right) {
  Items items = left.items();
  budget.spend(int64_t(items.size() + right.items().size()));
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Kind::List) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool is_repeatable(const Value& v) {
  return v.is_string() || v.is(Kind::List) || v.is(Kind::Tuple);
}

struct Bounds {
  Int start, stop, step, count;
};

// slice.indices() of Python.
Bounds bounds_of(Int length, const Value& start, const Value& stop, const Value& step) {
  const Int by = step.is(Kind::None) ? Int(1) : size_argument(step, "slice step");
  if (by == 0) bad("slice step cannot be zero");
  const Int low = by < 0 ? -1 : 0;
  const Int high = by < 0 ? length - 1 : length;
  const auto clamp = [&](const Value& v, Int fallback) {
    if (v.is(Kind::None)) return fallback;
    Int i = size_argument(v, "slice index");
    if (i < 0) i = i < -length ? low : i + length;  // no overflow: length is small
    return std::clamp(i, low, high);
  };
  const Int from = clamp(start, by < 0 ? high : low);
  const Int to = clamp(stop, by < 0 ? low : high);
  const bool is_empty = by > 0 ? from >= to : from <= to;
  const Int distance = by > 0 ? to - from : from - to;
  const Int stride = by > 0 ? by : (by < -length - 1 ? length + 1 : -by);
  return {from, to, by, is_empty ? Int(0) : (distance - 1) / stride + 1};
}

Value slice_text(Budget& budget, const Str& s, const Bounds& b) {
  budget.spend(int64_t(s.text.size() / kStepBytes));
  if (b.count == 0) return Value::string("", s.markup);
  if (s.is_ascii() && b.step == 1) return Value::string(s.text.substr(size_t(b.start), size_t(b.count)), s.markup);
  if (b.step == 1) {
    const size_t from = byte_offset(s.text, size_t(b.start));
    const size_t size = byte_offset(std::string_view(s.text).substr(from), size_t(b.count));
    return Value::string(s.text.substr(from, size), s.markup);
  }
  const std::u32string chars = decode(s.text);
  std::string out;
  for (Int i = 0; i < b.count; ++i) append_char(out, chars[size_t(b.start + i * b.step)]);
  return Value::string(std::move(out), s.markup);
}

Value undefined_element(const Value& object, const Value& key) {
  const std::string type = object.is(Kind::None) ? "None" : fmt::format("{} object", type_name(object));
  if (key.is_string())
    return Value::undefined(fmt::format("'{}' has no attribute {}", type, repr_of_string(key.text())));
  std::string shown = "that";
  if (key.is_number() || key.is(Kind::None)) shown = to_repr(key);
  return Value::undefined(fmt::format("{} has no element {}", type, shown));
}

std::optional<Value> item_at(const Value& object, const Value& key) {
  if (object.is(Kind::Dict)) {
    if (!is_hashable(key)) return std::nullopt;
    const Value* found = object.get<Dict>().find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  const bool indexed = is_repeatable(object) || object.is(Kind::Range);
  if (!indexed || !key.is_integral()) return std::nullopt;
  const Int n = *length_of(object);
  Int i = key.as_int();
  if (i < 0) i = i < -n ? -1 : i + n;
  if (i < 0 || i >= n) return std::nullopt;
  if (object.is(Kind::Range)) return Value::integer_of(object.get<RangeValue>().at(i));
  if (!object.is_string()) return object.items()[size_t(i)];
  const Str& s = object.get<Str>();
  if (s.is_ascii()) return Value::string(std::string(1, s.text[size_t(i)]), s.markup);
  size_t pos = byte_offset(s.text, size_t(i));
  const size_t start = pos;
  next_char(s.text, pos);
  return Value::string(s.text.substr(start, pos - start), s.markup);
}

std::optional<Value> python_attribute(const Value& object, const std::string& name) {
  if (object.is(Kind::Namespace)) {
    const Value* found = object.get<Namespace>().find(name);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (std::optional<Value> property = find_property(object, name)) return property;
  const MethodRow* row = find_method(object, name);
  if (!row) {
    if (!name.starts_with("__") || !name.ends_with("__")) return std::nullopt;
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  if (!row->run) {
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  return Value::holding(Kind::Method, std::make_shared<Method>(Method{row, row->name, object}));
}

}  // namespace

Value binary(Budget& budget, Op op, const Value& left, const Value& right) {
  if (left.is_undefined()) bad("{}", left.get<Undefined>().message);
  if (op == Op::Mod && left.is_string()) {
    if (left.get<Str>().markup) bad("% on a text that passed through safe or escape");
    return Value::string(percent_format(budget, left.text(), right));
  }
  if (right.is_undefined()) bad("{}", right.get<Undefined>().message);
  if (left.is_integral() && right.is_integral()) return int_binary(op, left.as_int(), right.as_int());
  if (left.is_number() && right.is_number()) return real_binary(op, left.as_real(), right.as_real());
  if (op == Op::Add && left.is_string() && right.is_string()) return add_texts(budget, left, right);
  if (op == Op::Add && left.kind == right.kind && (left.is(Kind::List) || left.is(Kind::Tuple))) {
    return add_sequences(budget, left, right);
  }
  if (op == Op::Mul && is_repeatable(left) && right.is_integral()) return repeat(budget, left, right.as_int());
  if (op == Op::Mul && is_repeatable(right) && left.is_integral()) return repeat(budget, right, left.as_int());
  bad("unsupported operand type(s) for {}: '{}' and '{}'", op_text(op), type_name(left), type_name(right));
}

Value repeat(Budget& budget, const Value& sequence, Int times) {
  const Int n = std::max<Int>(times, 0);
  const Int size = sequence.is_string() ? Int(sequence.text().size()) : Int(sequence.items().size());
  Int total = 0;
  if (__builtin_mul_overflow(n, size, &total) || total > Int(kMaxTextBytes))
    bad("a repetition {} items long", int_text(total));
  if (sequence.is_string()) {
    budget.spend_text(size_t(total));
    std::string out;
    out.reserve(size_t(total));
    for (Int i = 0; i < n && size > 0; ++i) out += sequence.text();
    return Value::string(std::move(out), sequence.get<Str>().markup);
  }
  budget.spend(int64_t(total));
  Items items;
  items.reserve(size_t(total));
  for (Int i = 0; i < n && size > 0; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return sequence.is(Kind::List) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value negate(const Value& v) {
  if (v.is_undefined()) bad("{}", v.get<Undefined>().message);
  if (v.is(Kind::Float)) return Value::real_of(-v.real);
  if (v.is_integral()) return int_binary(Op::Sub, 0, v.as_int());
  bad("bad operand type for unary -: '{}'", type_name(v));
}

Value plus(const Value& v) {
  if (v.is_undefined()) bad("{}", v.get<Undefined>().message);
  if (v.is(Kind::Float)) return v;
  if (v.is_integral()) return Value::integer_of(v.as_int());
  bad("bad operand type for unary +: '{}'", type_name(v));
}

bool compare_by(Evaluator& ev, Op op, const Value& left, const Value& right) {
  ev.budget().spend(std::min(extent_of(left).weight, extent_of(right).weight));
  if (op == Op::In) return contains(ev, right, left);
  if (op == Op::NotIn) return !contains(ev, right, left);
  if (op == Op::Eq || op == Op::Ne) return equal(left, right) == (op == Op::Eq);
  bool unordered = false;
  const int order = compare(left, right, op_text(op), &unordered);
  if (unordered) return false;
  switch (op) {
    case Op::Lt:
      return order < 0;
    case Op::Le:
      return order <= 0;
    case Op::Gt:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool contains(Evaluator& ev, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_undefined() || !item.is_string()) {
      bad("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    ev.budget().spend_text(container.text().size());
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is(Kind::Dict)) {
    if (!is_hashable(item)) bad("unhashable type: '{}'", type_name(item));
    return container.get<Dict>().find(item) != nullptr;
  }
  const Pull pull = ev.pull_from(container);
  for (Value v; pull(&v);) {
    ev.budget().spend(std::min(extent_of(v).weight, extent_of(item).weight));
    if (equal(v, item)) return true;
  }
  return false;
}

Value get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) bad("{}", object.get<Undefined>().message);
  if (std::optional<Value> attribute = python_attribute(object, name)) return *attribute;
  const Value key = Value::string(name);
  if (std::optional<Value> item = item_at(object, key)) return *item;
  return undefined_element(object, key);
}

Value get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) bad("{}", object.get<Undefined>().message);
  if (std::optional<Value> item = item_at(object, key)) return *item;
  if (key.is_string()) {
    if (std::optional<Value> attribute = python_attribute(object, key.text())) return *attribute;
  }
  return undefined_element(object, key);
}

Value slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) bad("{}", object.get<Undefined>().message);
  if (!is_repeatable(object) && !object.is(Kind::Range)) bad("'{}' object cannot be sliced", type_name(object));
  const Bounds b = bounds_of(*length_of(object), start, stop, step);
  if (object.is_string()) return slice_text(budget, object.get<Str>(), b);
  if (object.is(Kind::Range)) {
    const RangeValue& r = object.get<RangeValue>();
    Int by = 0;
    constexpr Int kFar = Int(1) << 80;
    if (__builtin_mul_overflow(r.step, b.step, &by) || by > kFar || by < -kFar) bad("range too big");
    const RangeValue part{r.start + b.start * r.step, r.start + b.stop * r.step, by};
    return Value::holding(Kind::Range, std::make_shared<RangeValue>(part));
  }
  budget.spend(int64_t(b.count));
  Items items;
  items.reserve(size_t(b.count));
  for (Int i = 0; i < b.count; ++i) items.push_back(object.items()[size_t(b.start + i * b.step)]);
  return object.is(Kind::List) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

std::optional<Int> length_of(const Value& v) {
  switch (v.kind) {
    case Kind::Undefined:
      return 0;
    case Kind::String:
      return v.get<Str>().n_chars;
    case Kind::List:
    case Kind::Tuple:
      return v.items().size();
    case Kind::Dict:
      return v.get<Dict>().items.size();
    case Kind::DictView:
      return v.get<DictView>().dict.get<Dict>().items.size();
    case Kind::Range:
      return v.get<RangeValue>().size();
    case Kind::Loop:
      return v.get_mutable<Loop>().length();
    default:
      return std::nullopt;
  }
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Int int_argument(const Value& v, const char* what) {
  if (!v.is_integral()) bad("{}: an integer is needed, not '{}'", what, type_name(v));
  return v.as_int();
}

Int size_argument(const Value& v, const char* what) {
  constexpr Int kFar = Int(1) << 100;
  return std::clamp(int_argument(v, what), -kFar, kFar);
}

const std::string& text_argument(const Value& v, const char* what) {
  if (!v.is_string()) bad("{}: a string is needed, not '{}'", what, type_name(v));
  return v.text();
}

}  // namespace loft::jinja
