#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace loft::jinja {

Value Evaluator::eval(const Expr* node, const Scope& scope) {
  const Level level(*this);
  budget_.spend(1);
  const Expr& e = *node;
  switch (e.kind) {
    case ExprKind::Const:
      return e.value;
    case ExprKind::Name:
      return eval_name(e, scope);
    case ExprKind::Tuple:
    case ExprKind::List:
      return eval_items(e, scope);
    case ExprKind::Dict:
      return eval_dict(e, scope);
    case ExprKind::Getattr:
      return eval_getattr(e, scope);
    case ExprKind::Getitem:
      return eval_getitem(e, scope);
    case ExprKind::Call:
      return eval_call(e, scope);
    case ExprKind::Filter:
      return eval_filter(e, scope);
    case ExprKind::Test:
      return eval_test(e, scope);
    case ExprKind::Not:
    case ExprKind::Neg:
    case ExprKind::Pos:
      return eval_unary(e, scope);
    case ExprKind::Binary:
      return eval_binary(e, scope);
    case ExprKind::And: {
      Value left = eval(e.items[0], scope);
      return truthy(left) ? eval(e.items[1], scope) : left;
    }
    case ExprKind::Or: {
      Value left = eval(e.items[0], scope);
      return truthy(left) ? left : eval(e.items[1], scope);
    }
    case ExprKind::Compare:
      return eval_compare(e, scope);
    case ExprKind::Concat:
      return eval_concat(e, scope);
    case ExprKind::Cond:
      return eval_cond(e, scope);
    case ExprKind::Slice:
    case ExprKind::NamespaceRef:
      break;
  }
  LOFT_CHECK_MSG(false, "an expression of kind {} is not a value", int(e.kind));
  return {};
}

Value Evaluator::eval_name(const Expr& e, const Scope& scope) {
  const Value& v = slot(e.ref, scope);
  return v.is_missing() ? Value::undefined(fmt::format("'{}' is undefined", e.name)) : v;
}

Value Evaluator::eval_items(const Expr& e, const Scope& scope) {
  Items items;
  items.reserve(e.items.size());
  for (const Expr* item : e.items) items.push_back(eval(item, scope));
  return e.kind == ExprKind::Tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Evaluator::eval_dict(const Expr& e, const Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < e.items.size(); i += 2) {
    const Value key = eval(e.items[i], scope);
    dict.set(key, eval(e.items[i + 1], scope));
  }
  return make_dict(std::move(dict));
}

Value Evaluator::eval_getattr(const Expr& e, const Scope& scope) {
  const Value object = eval(e.items[0], scope);
  line_ = e.line;
  return get_attribute(object, e.name);
}

Value Evaluator::eval_getitem(const Expr& e, const Scope& scope) {
  const Value object = eval(e.items[0], scope);
  const Expr* index = e.items[1];
  if (index->kind != ExprKind::Slice) {
    const Value key = eval(index, scope);
    line_ = e.line;
    return get_item(object, key);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (index->items[i]) bounds[i] = eval(index->items[i], scope);
  }
  line_ = e.line;
  return slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::eval_unary(const Expr& e, const Scope& scope) {
  const Value v = eval(e.items[0], scope);
  line_ = e.line;
  if (e.kind == ExprKind::Not) return Value::boolean_of(!truthy(v));
  return e.kind == ExprKind::Neg ? negate(v) : plus(v);
}

Value Evaluator::eval_binary(const Expr& e, const Scope& scope) {
  const Value left = eval(e.items[0], scope);
  const Value right = eval(e.items[1], scope);
  line_ = e.line;
  return binary(budget_, e.op, left, right);
}

Value Evaluator::eval_compare(const Expr& e, const Scope& scope) {
  Value left = eval(e.items[0], scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(e.items[i + 1], scope);
    line_ = e.line;
    if (!compare_by(*this, e.ops[i], left, right)) return Value::boolean_of(false);
    left = std::move(right);
  }
  return Value::boolean_of(true);
}

Value Evaluator::eval_concat(const Expr& e, const Scope& scope) {
  std::string out;
  for (const Expr* item : e.items) {
    const Value v = eval(item, scope);
    line_ = e.line;
    const std::string text = v.is_string() ? "" : to_text(v);
    const std::string& part = v.is_string() ? v.text() : text;
    budget_.spend_text(out.size() + part.size());
    out += part;
  }
  return Value::string(std::move(out));
}

Value Evaluator::eval_cond(const Expr& e, const Scope& scope) {
  if (truthy(eval(e.items[0], scope))) return eval(e.items[1], scope);
  if (e.items[2]) return eval(e.items[2], scope);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", e.line));
}

Args Evaluator::eval_args(const Arguments& arguments, const Scope& scope) {
  Args args;
  args.positional.reserve(arguments.positional.size());
  for (const Expr* e : arguments.positional) args.positional.push_back(eval(e, scope));
  for (const Keyword& k : arguments.keywords) args.keywords.emplace_back(k.name, eval(k.value, scope));
  if (arguments.star) {
    for (Value& v : items_of(eval(arguments.star, scope))) args.positional.push_back(std::move(v));
  }
  if (arguments.star_star) {
    const Value more = eval(arguments.star_star, scope);
    if (!more.is(Kind::Dict)) bad("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [k, v] : more.get<Dict>().items) {
      if (!k.is_string()) bad("keywords must be strings");
      for (const auto& [name, old] : args.keywords) {
        if (name == k.text()) bad("got multiple values for keyword argument '{}'", name);
      }
      args.keywords.emplace_back(k.text(), v);
    }
  }
  return args;
}

Value Evaluator::eval_filter(const Expr& e, const Scope& scope, const Value* captured) {
  const Level level(*this);
  Value value;
  if (!e.items[0]) {
    value = captured ? *captured : Value::string("");
  } else if (captured && e.items[0]->kind == ExprKind::Filter) {
    value = eval_filter(*e.items[0], scope, captured);
  } else {
    value = eval(e.items[0], scope);
  }
  const Args args = eval_args(e.args, scope);
  line_ = e.line;
  return e.filter->run(*this, value, args);
}

Value Evaluator::eval_test(const Expr& e, const Scope& scope) {
  const Value value = eval(e.items[0], scope);
  const Args args = eval_args(e.args, scope);
  line_ = e.line;
  return Value::boolean_of(e.test->run(*this, value, args));
}

Value Evaluator::eval_call(const Expr& e, const Scope& scope, const Value* caller) {
  const Expr& callee = *e.items[0];
  if (callee.kind == ExprKind::Getattr) return call_method(e, scope, caller);
  const Value function = eval(&callee, scope);
  Args args = eval_args(e.args, scope);
  if (caller) args.keywords.emplace_back("caller", *caller);
  line_ = e.line;
  return call(function, args);
}

// As eval_call for object.name(...), without making a value of the bound method.
Value Evaluator::call_method(const Expr& e, const Scope& scope, const Value* caller) {
  const Expr& callee = *e.items[0];
  const Value object = eval(callee.items[0], scope);
  line_ = e.line;
  const MethodRow* row = find_method(object, callee.name);
  const Value function = row ? Value::none() : get_attribute(object, callee.name);
  Args args = eval_args(e.args, scope);
  if (caller) args.keywords.emplace_back("caller", *caller);
  line_ = e.line;
  return row && row->run ? row->run(*this, object, args)
                         : call(row ? get_attribute(object, callee.name) : function, args);
}

}  // namespace loft::jinja
