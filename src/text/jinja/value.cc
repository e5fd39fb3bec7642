#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

constexpr size_t kIndexFrom = 8;  // smaller dicts are searched in order

constexpr int64_t kBytesPerWeight = 32;

void add(Extent& sum, const Extent& part) {
  sum.depth = std::max(sum.depth, part.depth);
  sum.weight += part.weight;
  if (sum.weight > kMaxWeight) bad("a value of more than {} parts", kMaxWeight);
}

Extent enclosed(Extent inner) {
  if (inner.depth >= kMaxValueDepth) bad("values nest deeper than {} levels", kMaxValueDepth);
  return {inner.depth + 1, inner.weight};
}

// The integer that a float equals, if there is one.
bool integral_value(double f, Int* i) {
  if (!(std::fabs(f) < 1e38) || std::floor(f) != f) return false;
  *i = Int(f);
  return true;
}

int order_of_numbers(const Value& a, const Value& b, bool* unordered) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  Int whole = 0;
  if (a.is_integral() && integral_value(b.real, &whole)) return a.as_int() < whole ? -1 : a.as_int() > whole;
  if (b.is_integral() && integral_value(a.real, &whole)) return whole < b.as_int() ? -1 : whole > b.as_int();
  const double x = a.as_real();
  const double y = b.as_real();
  if (std::isnan(x) || std::isnan(y)) {
    *unordered = true;
    return 1;
  }
  return x < y ? -1 : x > y;
}

bool equal_items(const Items& a, const Items& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const Value* other = b.find(item.first);
    return other && equal(item.second, *other);
  });
}

bool equal_ranges(const RangeValue& a, const RangeValue& b) {
  const Int n = a.size();
  if (n != b.size()) return false;
  return n == 0 || (a.start == b.start && (n == 1 || a.step == b.step));
}

bool equal_views(const DictView& a, const DictView& b) {
  const Dict& x = a.dict.get<Dict>();
  const Dict& y = b.dict.get<Dict>();
  if (a.which == DictView::Values || a.which != b.which) return &a == &b;
  if (x.items.size() != y.items.size()) return false;
  return std::all_of(x.items.begin(), x.items.end(), [&](const auto& item) {
    const Value* other = y.find(item.first);
    return other && (a.which == DictView::Keys || equal(item.second, *other));
  });
}

uint64_t mix(uint64_t h, uint64_t x) {
  return (h ^ x) * 0x9E3779B97F4A7C15u + (h >> 29);
}

}  // namespace

Value Value::boolean_of(bool b) {
  Value v = of(Kind::Bool);
  v.boolean = b;
  return v;
}

Value Value::integer_of(Int i) {
  Value v = of(Kind::Integer);
  v.integer = i;
  return v;
}

Value Value::real_of(double f) {
  Value v = of(Kind::Float);
  v.real = f;
  return v;
}

Value Value::string(std::string text, bool markup) {
  auto str = std::make_shared<Str>();
  str->n_chars = count_chars(text);
  str->text = std::move(text);
  str->markup = markup;
  return holding(Kind::String, std::move(str));
}

Value Value::undefined(std::string message) {
  return holding(Kind::Undefined, std::make_shared<Undefined>(Undefined{std::move(message)}));
}

Value Value::sequence(Kind kind, Items items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->extent = extent_around(items);
  sequence->items = std::move(items);
  return holding(kind, std::move(sequence));
}

Value Value::iterator(Items items) {
  auto walk = std::make_shared<Walk>();
  walk->extent = extent_around(items);
  walk->items = std::move(items);
  return holding(Kind::Iterator, std::move(walk));
}

const Items& Value::items() const {
  return get<Sequence>().items;
}

void Dict::set(const Value& key, Value value) {
  const uint64_t h = hash_of(key);
  if (Value* old = const_cast<Value*>(find(key))) {
    *old = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
  if (items.size() == kIndexFrom) {
    for (size_t i = 0; i < items.size(); ++i) index_.emplace(hash_of(items[i].first), uint32_t(i));
  } else if (items.size() > kIndexFrom) {
    index_.emplace(h, uint32_t(items.size() - 1));
  }
}

const Value* Dict::find(const Value& key) const {
  if (items.size() < kIndexFrom) {
    for (const auto& [k, v] : items) {
      if (equal(k, key)) return &v;
    }
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(hash_of(key));
  for (auto it = first; it != last; ++it) {
    if (equal(items[it->second].first, key)) return &items[it->second].second;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (items.size() >= kIndexFrom) return find(Value::string(std::string(key)));
  for (const auto& [k, v] : items) {
    if (k.is_string() && k.text() == key) return &v;
  }
  return nullptr;
}

Value make_dict(Dict dict) {
  Extent sum;
  for (const auto& [k, v] : dict.items) {
    add(sum, extent_of(k));
    add(sum, extent_of(v));
  }
  dict.extent = enclosed(sum);
  return Value::holding(Kind::Dict, std::make_shared<Dict>(std::move(dict)));
}

Int RangeValue::size() const {
  if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(name, std::move(value));
}

Extent extent_around(const Items& items) {
  Extent sum;
  for (const Value& v : items) add(sum, extent_of(v));
  return enclosed(sum);
}

Extent extent_of(const Value& v) {
  switch (v.kind) {
    case Kind::String:
      return {0, 1 + int64_t(v.text().size()) / kBytesPerWeight};
    case Kind::List:
    case Kind::Tuple:
      return v.get<Sequence>().extent;
    case Kind::Dict:
      return v.get<Dict>().extent;
    case Kind::Iterator:
      return v.get<Walk>().extent;
    case Kind::Cycler:
      return v.get<CyclerState>().extent;
    case Kind::Loop:
      return v.get<Loop>().extent;
    case Kind::DictView:
    case Kind::Method:
    case Kind::Joiner: {
      const Value& inner = v.is(Kind::DictView) ? v.get<DictView>().dict
                           : v.is(Kind::Method) ? v.get<Method>().self
                                                : v.get<JoinerState>().separator;
      const Extent extent = extent_of(inner);
      return {extent.depth + 1, extent.weight + 1};
    }
    default:
      return {};
  }
}

bool truthy(const Value& v) {
  switch (v.kind) {
    case Kind::Missing:
    case Kind::Undefined:
    case Kind::None:
      return false;
    case Kind::Bool:
      return v.boolean;
    case Kind::Integer:
      return v.integer != 0;
    case Kind::Float:
      return v.real != 0;
    case Kind::String:
      return !v.text().empty();
    case Kind::List:
    case Kind::Tuple:
      return !v.items().empty();
    case Kind::Dict:
      return !v.get<Dict>().items.empty();
    case Kind::DictView:
      return !v.get<DictView>().dict.get<Dict>().items.empty();
    case Kind::Range:
      return v.get<RangeValue>().size() > 0;
    case Kind::Loop:
      return v.get_mutable<Loop>().length() > 0;
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    bool unordered = false;
    return order_of_numbers(a, b, &unordered) == 0;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::Undefined:
    case Kind::Missing:
    case Kind::None:
      return true;
    case Kind::String:
      return a.text() == b.text();
    case Kind::List:
    case Kind::Tuple:
      return a.object == b.object || equal_items(a.items(), b.items());
    case Kind::Dict:
      return a.object == b.object || equal_dicts(a.get<Dict>(), b.get<Dict>());
    case Kind::DictView:
      return equal_views(a.get<DictView>(), b.get<DictView>());
    case Kind::Range:
      return equal_ranges(a.get<RangeValue>(), b.get<RangeValue>());
    case Kind::Method:
      return a.get<Method>().name == b.get<Method>().name && a.get<Method>().self.object == b.get<Method>().self.object;
    default:
      return a.object == b.object;
  }
}

int compare(const Value& a, const Value& b, const char* op, bool* unordered) {
  if (a.is_undefined()) bad("{}", a.get<Undefined>().message);
  if (b.is_undefined()) bad("{}", b.get<Undefined>().message);
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b, unordered);
  if (a.is_string() && b.is_string()) {
    const int order = a.text().compare(b.text());  // UTF-8 keeps the order of code points
    return order < 0 ? -1 : order > 0;
  }
  if (a.kind == b.kind && (a.is(Kind::List) || a.is(Kind::Tuple))) {
    const Items& x = a.items();
    const Items& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return compare(x[i], y[i], op, unordered);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  bad("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
}

uint64_t hash_of(const Value& v) {
  switch (v.kind) {
    case Kind::String:
      return std::hash<std::string>()(v.text());
    case Kind::Bool:
    case Kind::Integer:
      return mix(1, uint64_t(v.as_int()));
    case Kind::Float: {
      Int whole = 0;
      return integral_value(v.real, &whole) ? mix(1, uint64_t(whole)) : std::hash<double>()(v.real);
    }
    case Kind::Tuple: {
      uint64_t h = 7;
      for (const Value& item : v.items()) h = mix(h, hash_of(item));
      return h;
    }
    case Kind::List:
    case Kind::Dict:
    case Kind::DictView:
      bad("unhashable type: '{}'", type_name(v));
    case Kind::Range:
      return mix(11, uint64_t(v.get<RangeValue>().size()));
    case Kind::None:
    case Kind::Undefined:
    case Kind::Missing:
      return uint64_t(v.kind);
    default:
      return mix(13, uint64_t(reinterpret_cast<uintptr_t>(v.object.get())));
  }
}

bool is_hashable(const Value& v) {
  if (v.is(Kind::Tuple)) return std::all_of(v.items().begin(), v.items().end(), is_hashable);
  return !v.is(Kind::List) && !v.is(Kind::Dict) && !v.is(Kind::DictView);
}

const char* type_name(const Value& v) {
  switch (v.kind) {
    case Kind::Missing:
    case Kind::Undefined:
      return "Undefined";
    case Kind::None:
      return "NoneType";
    case Kind::Bool:
      return "bool";
    case Kind::Integer:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::String:
      return v.get<Str>().markup ? "Markup" : "str";
    case Kind::List:
      return "list";
    case Kind::Tuple:
      return "tuple";
    case Kind::Dict:
      return "dict";
    case Kind::DictView: {
      constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
      return kNames[v.get<DictView>().which];
    }
    case Kind::Range:
      return "range";
    case Kind::Iterator:
      return "generator";
    case Kind::Namespace:
      return "Namespace";
    case Kind::Macro:
      return "Macro";
    case Kind::Loop:
      return "LoopContext";
    case Kind::Joiner:
      return "Joiner";
    case Kind::Cycler:
      return "Cycler";
    case Kind::Function:
      return "function";
    case Kind::Method:
      return "method";
  }
  return "object";
}

}  // namespace loft::jinja
