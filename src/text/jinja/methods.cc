#include "text/jinja/methods.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"

namespace loft::jinja {
namespace {

template <DictView::Which W>
Value view_method(Evaluator&, const Value& self, const Args& args) {
  const Params p("dict view", args, {});
  return Value::holding(Kind::DictView, std::make_shared<DictView>(DictView{W, self}));
}

Value dict_get(Evaluator&, const Value& self, const Args& args) {
  if (!args.keywords.empty()) bad("dict.get() takes no keyword arguments");
  const Params p("get", args, {"key", "default"}, 1);
  if (!is_hashable(p[0])) bad("unhashable type: '{}'", type_name(p[0]));
  const Value* found = self.get<Dict>().find(p[0]);
  return found ? *found : p.has(1) ? p[1] : Value::none();
}

Value copy_method(Evaluator&, const Value& self, const Args& args) {
  const Params p("copy", args, {});
  return self;  // nothing can change it
}

Value count_items(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("count", args, {"value"}, 1);
  Int n = 0;
  for (const Value& v : ev.items_of(self)) n += equal(v, p[0]) ? 1 : 0;
  return Value::integer_of(n);
}

Value index_of(Evaluator& ev, const Value& self, const Args& args) {
  const Params p("index", args, {"value", "start", "stop"}, 1);
  const Items items = ev.items_of(self);
  const Int n = Int(items.size());
  const auto place = [&](size_t i, Int fallback) {
    if (!p.has(i)) return fallback;
    const Int v = size_argument(p[i], "index");
    return v < 0 ? std::max<Int>(v < -n ? Int(0) : v + n, 0) : std::min(v, n);
  };
  const Int stop = place(2, n);
  for (Int i = place(1, 0); i < stop; ++i) {
    if (equal(items[size_t(i)], p[0])) return Value::integer_of(i);
  }
  bad("{} is not in the {}", to_repr(p[0]), type_name(self));
}

Value loop_cycle(Evaluator&, const Value& self, const Args& args) {
  if (!args.keywords.empty()) bad("cycle() takes no keyword arguments");
  if (args.positional.empty()) bad("no items for cycling given");
  return args.positional[size_t(self.get<Loop>().index0) % args.positional.size()];
}

Value loop_changed(Evaluator& ev, const Value& self, const Args& args) {
  if (!args.keywords.empty()) bad("changed() takes no keyword arguments");
  Loop& loop = self.get_mutable<Loop>();
  const bool is_same = loop.was_changed && loop.last_changed.size() == args.positional.size() &&
                       std::equal(args.positional.begin(), args.positional.end(), loop.last_changed.begin(), equal);
  if (is_same) return Value::boolean_of(false);
  if (!std::exchange(loop.was_changed, true)) ev.keep_loop(self);
  loop.last_changed = args.positional;
  return Value::boolean_of(true);
}

Value cycler_next(Evaluator&, const Value& self, const Args& args) {
  const Params p("next", args, {});
  CyclerState& cycler = self.get_mutable<CyclerState>();
  const size_t i = std::exchange(cycler.next, (cycler.next + 1) % cycler.items.size());
  return cycler.items[i];
}

Value cycler_reset(Evaluator&, const Value& self, const Args& args) {
  const Params p("reset", args, {});
  self.get_mutable<CyclerState>().next = 0;
  return Value::none();
}

Value is_integer(Evaluator&, const Value& self, const Args& args) {
  const Params p("is_integer", args, {});
  return Value::boolean_of(std::floor(self.real) == self.real && std::isfinite(self.real));
}

Value bit_length(Evaluator&, const Value& self, const Args& args) {
  const Params p("bit_length", args, {});
  Int n = 0;
  for (unsigned __int128 i = self.as_int() < 0 ? -static_cast<unsigned __int128>(self.as_int())
                                               : static_cast<unsigned __int128>(self.as_int());
       i > 0; i >>= 1)
    ++n;
  return Value::integer_of(n);
}

constexpr MethodRow kMethods[] = {
    {Kind::Dict, "items", view_method<DictView::Items>},
    {Kind::Dict, "keys", view_method<DictView::Keys>},
    {Kind::Dict, "values", view_method<DictView::Values>},
    {Kind::Dict, "get", dict_get},
    {Kind::Dict, "copy", copy_method},
    {Kind::Dict, "clear", nullptr},
    {Kind::Dict, "pop", nullptr},
    {Kind::Dict, "popitem", nullptr},
    {Kind::Dict, "setdefault", nullptr},
    {Kind::Dict, "update", nullptr},
    {Kind::List, "append", nullptr},
    {Kind::List, "clear", nullptr},
    {Kind::List, "extend", nullptr},
    {Kind::List, "insert", nullptr},
    {Kind::List, "pop", nullptr},
    {Kind::List, "remove", nullptr},
    {Kind::List, "reverse", nullptr},
    {Kind::List, "sort", nullptr},
    {Kind::List, "copy", copy_method},
    {Kind::List, "count", count_items},
    {Kind::List, "index", index_of},
    {Kind::Tuple, "count", count_items},
    {Kind::Tuple, "index", index_of},
    {Kind::Range, "count", count_items},
    {Kind::Range, "index", index_of},
    {Kind::Loop, "cycle", loop_cycle},
    {Kind::Loop, "changed", loop_changed},
    {Kind::Cycler, "next", cycler_next},
    {Kind::Cycler, "reset", cycler_reset},
    {Kind::Float, "is_integer", is_integer},
    {Kind::Integer, "bit_length", bit_length},
    {Kind::Bool, "bit_length", bit_length},
};

struct LoopProperty {
  const char* name;
  Value (*get)(Loop& loop);
};
constexpr LoopProperty kLoopProperties[] = {
    {"index", [](Loop& l) { return Value::integer_of(l.index0 + 1); }},
    {"index0", [](Loop& l) { return Value::integer_of(l.index0); }},
    {"revindex", [](Loop& l) { return Value::integer_of(Int(l.length()) - l.index0); }},
    {"revindex0", [](Loop& l) { return Value::integer_of(Int(l.length()) - l.index0 - 1); }},
    {"first", [](Loop& l) { return Value::boolean_of(l.index0 == 0); }},
    {"last", [](Loop& l) { return Value::boolean_of(l.peek() == nullptr); }},
    {"length", [](Loop& l) { return Value::integer_of(Int(l.length())); }},
    {"depth", [](Loop& l) { return Value::integer_of(l.depth0 + 1); }},
    {"depth0", [](Loop& l) { return Value::integer_of(l.depth0); }},
    {"previtem", [](Loop& l) { return l.index0 == 0 ? Value::undefined("there is no previous item") : l.before; }},
    {"nextitem",
     [](Loop& l) {
       const Value* next = l.peek();
       return next ? *next : Value::undefined("there is no next item");
     }},
};

std::optional<Value> number_property(const Value& v, const std::string& name) {
  if (name == "real") return v.is(Kind::Float) ? v : Value::integer_of(v.as_int());
  if (name == "imag") return v.is(Kind::Float) ? Value::real_of(0) : Value::integer_of(0);
  if (v.is(Kind::Float)) return std::nullopt;
  if (name == "numerator") return Value::integer_of(v.as_int());
  if (name == "denominator") return Value::integer_of(1);
  return std::nullopt;
}

}  // namespace

std::span<const MethodRow> object_methods() {
  return kMethods;
}

const MethodRow* find_method(const Value& object, std::string_view name) {
  const std::span<const MethodRow> rows = object.is_string() ? text_methods() : object_methods();
  for (const MethodRow& row : rows) {
    if (row.kind == object.kind && row.name == name) return &row;
  }
  return nullptr;
}

bool is_method_name(std::string_view name) {
  const auto has = [name](std::span<const MethodRow> rows) {
    return std::any_of(rows.begin(), rows.end(), [name](const MethodRow& row) { return row.name == name; });
  };
  return has(text_methods()) || has(object_methods());
}

std::optional<Value> find_property(const Value& object, const std::string& name) {
  if (object.is_number()) return number_property(object, name);
  if (object.is(Kind::Cycler) && name == "current") {
    return object.get<CyclerState>().items[object.get<CyclerState>().next];
  }
  if (object.is(Kind::Range)) {
    const RangeValue& range = object.get<RangeValue>();
    if (name == "start") return Value::integer_of(range.start);
    if (name == "stop") return Value::integer_of(range.stop);
    if (name == "step") return Value::integer_of(range.step);
  }
  if (object.is(Kind::Macro) && name == "name") return Value::string(object.get<Macro>().name);
  if (!object.is(Kind::Loop)) return std::nullopt;
  for (const LoopProperty& row : kLoopProperties) {
    if (row.name == name) return row.get(object.get_mutable<Loop>());
  }
  return std::nullopt;
}

}  // namespace loft::jinja
