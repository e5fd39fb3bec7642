// text/jinja: the filters over lists, dicts and everything else that can be walked.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

Value length_filter(Evaluator&, const Value& v, const Args& args) {
  const Params p("length", args, {});
  const std::optional<Int> n = length_of(v);
  if (!n) bad("object of type '{}' has no len()", type_name(v));
  return Value::integer_of(*n);
}

Value list_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("list", args, {});
  return Value::list(ev.items_of(v));
}

Value first_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("first", args, {});
  Value item;
  return ev.pull_from(v)(&item) ? item : Value::undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& v) {
  return v.is_string() || v.is(Kind::List) || v.is(Kind::Tuple) || v.is(Kind::Dict) || v.is(Kind::DictView) ||
         v.is(Kind::Range) || v.is_undefined();
}

Value last_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("last", args, {});
  if (!is_reversible(v)) bad("'{}' object is not reversible", type_name(v));
  if (v.is(Kind::List) || v.is(Kind::Tuple) || v.is_string()) {
    return *length_of(v) > 0 ? get_item(v, Value::integer_of(-1))
                             : Value::undefined("No last item, sequence was empty.");
  }
  const Items items = ev.items_of(v);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("reverse", args, {});
  if (v.is_string()) {
    std::u32string chars = decode(v.text());
    std::reverse(chars.begin(), chars.end());
    return ev.text(encode(chars), v.get<Str>().markup);
  }
  Items items = ev.items_of(v);
  std::reverse(items.begin(), items.end());
  return is_reversible(v) ? Value::iterator(std::move(items)) : Value::list(std::move(items));
}

Value items_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("items", args, {});
  if (v.is_undefined()) return Value::iterator({});
  if (!v.is(Kind::Dict)) bad("Can only get item pairs from a mapping.");
  return Value::iterator(ev.items_of(find_method(v, "items")->run(ev, v, {})));
}

// "a.b.0": names and numbers one after the other. None: the item itself.
struct Path {
  Items parts;
  Value fallback = Value::missing();
  bool ignores_case = false;

  Value of(const Value& item) const {
    Value v = item;
    for (const Value& part : parts) {
      v = get_item(v, part);
      if (v.is_undefined() && !fallback.is_missing() && !fallback.is(Kind::None)) v = fallback;
    }
    return ignores_case && v.is_string() ? Value::string(lower(v.text())) : v;
  }
};

Path path_of(const Value& attribute, bool ignores_case = false) {
  Path path;
  path.ignores_case = ignores_case;
  if (attribute.is_missing() || attribute.is(Kind::None)) return path;
  if (!attribute.is_string()) {
    path.parts.push_back(attribute);
    return path;
  }
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    const std::optional<Int> index = is_number ? parse_int(part, 10) : std::nullopt;
    path.parts.push_back(index ? Value::integer_of(*index) : Value::string(std::string(part)));
    if (dot == std::string_view::npos) return path;
    rest.remove_prefix(dot + 1);
  }
}

Value join_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("join", args, {"d", "attribute"});
  const std::string separator = p.has(0) ? to_text(p[0]) : "";
  const Path path = path_of(p[1]);
  std::string out;
  bool is_first = true;
  const Pull pull = ev.pull_from(v);
  for (Value item; pull(&item);) {
    const std::string text = to_text(path.of(item));
    ev.budget().spend(1);
    ev.budget().spend_text(separator.size() + text.size());
    if (!std::exchange(is_first, false)) out += separator;
    out += text;
    if (out.size() > kMaxTextBytes) bad("join: more than {} MiB", kMaxTextBytes >> 20);
  }
  return Value::string(std::move(out));
}

bool less(Evaluator& ev, const Value& a, const Value& b) {
  return compare_by(ev, Op::Lt, a, b);
}

struct Keyed {
  Value key;
  Value item;
};

Items sorted(Evaluator& ev, std::vector<Keyed> keyed, bool reverse) {
  // Python reverses, sorts stably and reverses again, so equal items keep their order.
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) { return less(ev, a.key, b.key); });
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  Items items;
  for (Keyed& k : keyed) items.push_back(std::move(k.item));
  return items;
}

Value sort_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool ignores_case = !(p.has(1) && truthy(p[1]));
  std::vector<Path> paths;
  if (p.has(2) && p[2].is_string()) {
    std::string_view rest = p[2].text();
    for (size_t comma = 0; comma != std::string_view::npos;) {
      comma = rest.find(',');
      paths.push_back(path_of(Value::string(std::string(rest.substr(0, comma))), ignores_case));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
  } else {
    paths.push_back(path_of(p[2], ignores_case));
  }
  std::vector<Keyed> keyed;
  for (Value& item : ev.items_of(v)) {
    Items keys;
    for (const Path& path : paths) keys.push_back(path.of(item));
    keyed.push_back({Value::list(std::move(keys)), std::move(item)});
  }
  return ev.list(sorted(ev, std::move(keyed), p.has(0) && truthy(p[0])));
}

Value dictsort_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (!v.is(Kind::Dict)) bad("dictsort: a dict is needed, not '{}'", type_name(v));
  const std::string by = p.has(1) ? to_text(p[1]) : "key";
  if (by != "key" && by != "value") bad("You can only sort by either \"key\" or \"value\"");
  Path path;
  path.ignores_case = !(p.has(0) && truthy(p[0]));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : v.get<Dict>().items) {
    keyed.push_back({path.of(by == "key" ? key : value), Value::tuple({key, value})});
  }
  return ev.list(sorted(ev, std::move(keyed), p.has(2) && truthy(p[2])));
}

Value unique_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("unique", args, {"case_sensitive", "attribute"});
  const Path path = path_of(p[1], !(p.has(0) && truthy(p[0])));
  Dict seen;
  Items items;
  for (Value& item : ev.items_of(v)) {
    const Value key = path.of(item);
    if (seen.find(key)) continue;
    seen.set(key, Value::none());
    items.push_back(std::move(item));
  }
  return Value::iterator(std::move(items));
}

template <bool WantsLarger>
Value extreme_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p(WantsLarger ? "max" : "min", args, {"case_sensitive", "attribute"});
  const Path path = path_of(p[1], !(p.has(0) && truthy(p[0])));
  const Items items = ev.items_of(v);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = path.of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    const Value key = path.of(items[i]);
    if (!(WantsLarger ? compare_by(ev, Op::Gt, key, best_key) : less(ev, key, best_key))) continue;
    best = i;
    best_key = key;
  }
  return items[best];
}

Value sum_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("sum", args, {"attribute", "start"});
  const Path path = path_of(p[0]);
  Value sum = p.has(1) ? p[1] : Value::integer_of(0);
  if (sum.is_string()) bad("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : ev.items_of(v)) sum = binary(ev.budget(), Op::Add, sum, path.of(item));
  return sum;
}

Value map_filter(Evaluator& ev, const Value& v, const Args& args) {
  Items items;
  const bool by_attribute =
      args.positional.empty() && !args.keywords.empty() &&
      std::any_of(args.keywords.begin(), args.keywords.end(), [](const auto& k) { return k.first == "attribute"; });
  if (by_attribute) {
    const Params p("map", args, {"attribute", "default"}, 1);
    if (!args.positional.empty()) bad("map: a filter and an attribute");
    Path path = path_of(p[0]);
    path.fallback = p[1];
    for (const Value& item : ev.items_of(v)) items.push_back(path.of(item));
    return Value::iterator(std::move(items));
  }
  if (!truthy(v)) return Value::iterator({});
  if (args.positional.empty()) bad("map requires a filter argument");
  const std::string& name = text_argument(args.positional[0], "map");
  const FilterRow* filter = find_filter(name);
  if (!filter) bad("No filter named '{}'.", name);
  Args rest = args;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : ev.items_of(v)) items.push_back(ev.apply(*filter, item, rest));
  return Value::iterator(std::move(items));
}

template <bool Wanted, bool ByAttribute>
Value select_filter(Evaluator& ev, const Value& v, const Args& args) {
  if (!truthy(v)) return Value::iterator({});
  Args rest = args;
  Path path;
  if (ByAttribute) {
    if (rest.positional.empty()) bad("Missing parameter for attribute name");
    path = path_of(rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  const TestRow* test = nullptr;
  if (!rest.positional.empty()) {
    const std::string& name = text_argument(rest.positional[0], "select");
    test = find_test(name);
    if (!test) bad("No test named '{}'.", name);
    rest.positional.erase(rest.positional.begin());
  }
  Items items;
  for (const Value& item : ev.items_of(v)) {
    const Value tested = path.of(item);
    if ((test ? test->run(ev, tested, rest) : truthy(tested)) == Wanted) items.push_back(item);
  }
  return Value::iterator(std::move(items));
}

Value groupby_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  Path path = path_of(p[0], !(p.has(2) && truthy(p[2])));
  path.fallback = p[1];
  Path shown = path;
  shown.ignores_case = false;
  std::vector<Keyed> keyed;
  for (Value& item : ev.items_of(v)) keyed.push_back({path.of(item), std::move(item)});
  Items groups;
  Items group;
  for (Value& item : sorted(ev, std::move(keyed), false)) {
    if (!group.empty() && !equal(path.of(group.back()), path.of(item))) {
      const Value key = shown.of(group[0]);
      groups.push_back(Value::tuple({key, Value::list(std::exchange(group, {}))}));
    }
    group.push_back(std::move(item));
  }
  if (!group.empty()) {
    const Value key = shown.of(group[0]);
    groups.push_back(Value::tuple({key, Value::list(std::move(group))}));
  }
  return ev.list(std::move(groups));
}

Value batch_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("batch", args, {"linecount", "fill_with"}, 1);
  const Int size = size_argument(p[0], "batch");
  Items batches;
  Items batch;
  for (Value& item : ev.items_of(v)) {
    if (Int(batch.size()) == size) batches.push_back(Value::list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (p.is_given(1) && Int(batch.size()) < size) {
      if (size > Int(kMaxSteps)) bad("batch: {} items", int_text(size));
      ev.budget().spend(int64_t(size));
      batch.resize(size_t(size), p[1]);
    }
    batches.push_back(Value::list(std::move(batch)));
  }
  return Value::iterator(std::move(batches));
}

Value slice_filter(Evaluator& ev, const Value& v, const Args& args) {
  const Params p("slice", args, {"slices", "fill_with"}, 1);
  const Int n = size_argument(p[0], "slice");
  if (n == 0) bad("integer division or modulo by zero");
  if (n > Int(kMaxSteps)) bad("slice: {} slices", int_text(n));
  const Items items = ev.items_of(v);
  ev.budget().spend(int64_t(std::max<Int>(n, 0)));
  const Int each = n > 0 ? Int(items.size()) / n : Int(0);
  const Int longer = n > 0 ? Int(items.size()) % n : Int(0);
  Items slices;
  Int start = 0;
  for (Int i = 0; i < n; ++i) {
    const Int end = start + each + (i < longer ? 1 : 0);
    Items slice(items.begin() + std::ptrdiff_t(start), items.begin() + std::ptrdiff_t(end));
    if (p.is_given(1) && i >= longer) slice.push_back(p[1]);
    slices.push_back(Value::list(std::move(slice)));
    start = end;
  }
  return Value::iterator(std::move(slices));
}

constexpr FilterRow kFilters[] = {
    {"batch", batch_filter},
    {"count", length_filter},
    {"dictsort", dictsort_filter},
    {"first", first_filter},
    {"groupby", groupby_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last_filter},
    {"length", length_filter},
    {"list", list_filter},
    {"map", map_filter},
    {"max", extreme_filter<true>},
    {"min", extreme_filter<false>},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<false, true>},
    {"reverse", reverse_filter},
    {"select", select_filter<true, false>},
    {"selectattr", select_filter<true, true>},
    {"slice", slice_filter},
    {"sort", sort_filter},
    {"sum", sum_filter},
    {"unique", unique_filter},
};

}  // namespace

std::span<const FilterRow> item_filters() {
  return kFilters;
}

}  // namespace loft::jinja
