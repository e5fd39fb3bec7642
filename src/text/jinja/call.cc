// text/jinja: calling macros, methods and functions, and walking values.
#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {

Params::Params(const char* function, const Args& args, std::initializer_list<const char*> names, size_t n_required)
    : values_(names.size(), Value::missing()) {
  if (args.positional.size() > names.size()) {
    bad("{}() takes at most {} arguments, {} given", function, names.size(), args.positional.size());
  }
  std::copy(args.positional.begin(), args.positional.end(), values_.begin());
  for (const auto& [name, value] : args.keywords) {
    size_t i = 0;
    while (i < names.size() && name != *(names.begin() + i)) ++i;
    if (i == names.size()) bad("{}() got an unexpected keyword argument '{}'", function, name);
    if (has(i)) bad("{}() got multiple values for argument '{}'", function, name);
    values_[i] = value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!has(i)) bad("{}() lacks the argument '{}'", function, *(names.begin() + i));
  }
}

Value Evaluator::text(std::string s, bool markup) {
  budget_.spend_text(s.size());
  return Value::string(std::move(s), markup);
}

Value Evaluator::list(Items items) {
  budget_.spend(int64_t(items.size()));
  return Value::list(std::move(items));
}

Value Evaluator::call(const Value& callee, const Args& args) {
  const Level level(*this);
  switch (callee.kind) {
    case Kind::Macro:
      return call_macro(callee.get<Macro>(), args);
    case Kind::Function:
      return callee.get<FunctionRow>().run(*this, args);
    case Kind::Method:
      return callee.get<Method>().row->run(*this, callee.get<Method>().self, args);
    case Kind::Joiner: {
      JoinerState& joiner = callee.get_mutable<JoinerState>();
      return std::exchange(joiner.used, true) ? joiner.separator : Value::string("");
    }
    case Kind::Loop: {
      const Params p("loop", args, {"iterable"}, 1);
      return call_loop(callee.get_mutable<Loop>(), p[0]);
    }
    case Kind::Undefined:
      bad("{}", callee.get<Undefined>().message);
    default:
      bad("'{}' object is not callable", type_name(callee));
  }
}

// Counted as a level: map can apply map to each item, and so on.
Value Evaluator::apply(const FilterRow& filter, const Value& value, const Args& args) {
  const Level level(*this);
  budget_.spend(1 + int64_t(args.positional.size()));
  return filter.run(*this, value, args);
}

Value Evaluator::call_loop(Loop& loop, const Value& items) {
  if (!loop.recursive) bad("the loop must have the 'recursive' marker to be called");
  if (!loop.outer) bad("the loop is over");
  const Stmt& s = *loop.recursive;
  struct Redirect {
    std::string*& out;
    std::string* const before;
    ~Redirect() { out = before; }
  };
  std::string text;
  const Scope outer = loop.outer;
  {
    const Redirect redirect{out_, out_};
    out_ = &text;
    run_loop(s, items, loop.depth0 + 1, new_scope(s.function, outer), outer);
  }
  return Value::string(std::move(text));
}

Value Evaluator::call_macro(const Macro& macro, const Args& args) {
  const Scope scope = new_scope(macro.body->function, macro.outer);
  bind_macro(*macro.body, args, *scope);
  enter(macro.body->entry, *scope);
  for (const Parameter& p : macro.body->parameters) {
    Value& value = scope->slots[size_t(p.slot)];
    if (!value.is_missing()) continue;
    Value initial = p.default_value ? eval(p.default_value, scope)
                                    : Value::undefined(fmt::format("parameter '{}' was not provided", p.name));
    scope->slots[size_t(p.slot)] = std::move(initial);
  }
  return Value::string(capture(macro.body->body, scope));
}

void Evaluator::bind_macro(const MacroBody& body, const Args& args, Activation& scope) {
  const size_t n = std::min(args.positional.size(), body.parameters.size());
  for (size_t i = 0; i < n; ++i) scope.slots[size_t(body.parameters[i].slot)] = args.positional[i];
  Args rest;
  for (const auto& [name, value] : args.keywords) {
    size_t i = n;
    while (i < body.parameters.size() && body.parameters[i].name != name) ++i;
    if (i < body.parameters.size()) {
      scope.slots[size_t(body.parameters[i].slot)] = value;
    } else {
      rest.keywords.emplace_back(name, value);
    }
  }
  rest.positional.assign(args.positional.begin() + std::ptrdiff_t(n), args.positional.end());
  bind_special(body, rest, scope);
}

// `args` is what the parameters did not take.
void Evaluator::bind_special(const MacroBody& body, const Args& args, Activation& scope) {
  Dict kwargs;
  Value caller = Value::missing();
  for (const auto& [name, value] : args.keywords) {
    if (name == "caller" && body.caller_slot >= 0) {
      caller = value;
    } else {
      kwargs.set(Value::string(name), value);
    }
  }
  if (body.caller_slot >= 0) {
    const bool is_none = caller.is_missing() || caller.is(Kind::None);
    scope.slots[size_t(body.caller_slot)] = is_none ? Value::undefined("No caller defined") : caller;
  }
  if (body.kwargs_slot < 0 && !kwargs.items.empty()) {
    bad("macro '{}' takes no keyword argument '{}'", body.name, kwargs.items[0].first.text());
  }
  if (body.varargs_slot < 0 && !args.positional.empty()) {
    bad("macro '{}' takes not more than {} argument(s)", body.name, body.parameters.size());
  }
  if (body.kwargs_slot >= 0) scope.slots[size_t(body.kwargs_slot)] = make_dict(std::move(kwargs));
  if (body.varargs_slot >= 0) scope.slots[size_t(body.varargs_slot)] = Value::tuple(args.positional);
}

namespace {

Pull pull_items(const Value& holder, const Items& items) {
  return [holder, &items, i = size_t(0)](Value* v) mutable {
    if (i >= items.size()) return false;
    *v = items[i++];
    return true;
  };
}

Value view_item(const DictView& view, const std::pair<Value, Value>& item) {
  if (view.which == DictView::Keys) return item.first;
  return view.which == DictView::Values ? item.second : Value::tuple({item.first, item.second});
}

}  // namespace

Pull Evaluator::pull_from(const Value& v) {
  switch (v.kind) {
    case Kind::Undefined:
      return [](Value*) { return false; };
    case Kind::List:
    case Kind::Tuple:
      return pull_items(v, v.items());
    case Kind::Dict:
      return [v, i = size_t(0)](Value* out) mutable {
        const auto& items = v.get<Dict>().items;
        if (i >= items.size()) return false;
        *out = items[i++].first;
        return true;
      };
    case Kind::DictView:
      return [v, i = size_t(0)](Value* out) mutable {
        const DictView& view = v.get<DictView>();
        const auto& items = view.dict.get<Dict>().items;
        if (i >= items.size()) return false;
        *out = view_item(view, items[i++]);
        return true;
      };
    case Kind::String:
      return [v, pos = size_t(0)](Value* out) mutable {
        const std::string& s = v.text();
        if (pos >= s.size()) return false;
        const size_t start = pos;
        next_char(s, pos);
        *out = Value::string(s.substr(start, pos - start));
        return true;
      };
    case Kind::Range:
      return [v, i = Int(0)](Value* out) mutable {
        const RangeValue& range = v.get<RangeValue>();
        if (i >= range.size()) return false;
        *out = Value::integer_of(range.at(i++));
        return true;
      };
    case Kind::Iterator:
      return [v](Value* out) {
        Walk& walk = v.get_mutable<Walk>();
        if (walk.next >= walk.items.size()) return false;
        *out = walk.items[walk.next++];
        return true;
      };
    default:
      bad("'{}' object is not iterable", type_name(v));
  }
}

Items Evaluator::items_of(const Value& v) {
  Items items;
  const Pull pull = pull_from(v);
  for (Value item; pull(&item);) {
    budget_.spend(1);
    items.push_back(item);
  }
  return items;
}

}  // namespace loft::jinja
