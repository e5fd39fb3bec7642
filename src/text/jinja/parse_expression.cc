#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/parser.h"

namespace loft::jinja {
namespace {

struct OpRow {
  std::string_view text;
  Op op;
};
constexpr OpRow kCompareOps[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<", Op::Lt},
                                 {"<=", Op::Le}, {">", Op::Gt},  {">=", Op::Ge}};
constexpr OpRow kMath1Ops[] = {{"+", Op::Add}, {"-", Op::Sub}};
constexpr OpRow kMath2Ops[] = {{"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}};

template <size_t N>
const OpRow* find_op(const OpRow (&rows)[N], const Token& token) {
  if (token.kind != TokenKind::Operator) return nullptr;
  for (const OpRow& row : rows) {
    if (row.text == token.text) return &row;
  }
  return nullptr;
}

bool is_reserved(const std::string& name) {
  constexpr std::string_view kWords[] = {"true", "false", "none", "True", "False", "None"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

}  // namespace

Expr* Parser::new_expr(ExprKind kind, int line, std::vector<Expr*> items) {
  Expr& node = tree_.exprs.emplace_back();
  node.kind = kind;
  node.line = line;
  node.items = std::move(items);
  measure(&node);
  return &node;
}

void Parser::measure(Expr* node) const {
  int depth = 0;
  const auto take = [&depth](const Expr* e) {
    if (e) depth = std::max(depth, e->depth);
  };
  for (const Expr* e : node->items) take(e);
  for (const Expr* e : node->args.positional) take(e);
  for (const Keyword& k : node->args.keywords) take(k.value);
  take(node->args.star);
  take(node->args.star_star);
  node->depth = depth + 1;
  if (node->depth > kMaxExprDepth) {
    unsupported(node->line, fmt::format("an expression deeper than {} levels", kMaxExprDepth));
  }
}

bool Parser::is_tuple_end(Words end_names) const {
  const TokenKind kind = current().kind;
  return kind == TokenKind::VariableEnd || kind == TokenKind::BlockEnd || at_op(")") || at_any_name(end_names);
}

Expr* Parser::parse_tuple(bool with_cond, Words end_names, bool has_parentheses) {
  int line = current().line;
  std::vector<Expr*> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    if (is_tuple_end(end_names)) break;
    items.push_back(parse_expression(with_cond));
    if (!at_op(",")) break;
    is_tuple = true;
    line = current().line;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!has_parentheses) error(line, "expected an expression, got " + describe(current()));
  }
  return new_expr(ExprKind::Tuple, line, std::move(items));
}

Expr* Parser::parse_target(Words end_names, bool with_namespace) {
  int line = current().line;
  std::vector<Expr*> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    if (is_tuple_end(end_names)) break;
    items.push_back(parse_target_primary(with_namespace));
    if (!at_op(",")) break;
    is_tuple = true;
    line = current().line;
  }
  if (!is_tuple && !items.empty()) return items[0];
  if (!is_tuple) error(line, "expected a name to assign to, got " + describe(current()));
  return new_expr(ExprKind::Tuple, line, std::move(items));
}

Expr* Parser::parse_target_primary(bool with_namespace) {
  const Nested level(*this);
  const Token& token = current();
  if (token.kind == TokenKind::Operator && (token.text == "(" || token.text == "[")) {
    const bool is_list = next().text == "[";
    std::vector<Expr*> items;
    bool has_comma = false;
    while (!at_op(is_list ? "]" : ")")) {
      if (!items.empty()) {
        expect_op(",");
        has_comma = true;
        if (at_op(is_list ? "]" : ")")) break;
      }
      items.push_back(parse_target_primary(false));
    }
    next();
    if (is_list) error(token.line, "can't assign to 'list'");
    if (!has_comma && items.size() == 1) return items[0];
    return new_expr(ExprKind::Tuple, token.line, std::move(items));
  }
  if (token.kind != TokenKind::Name || is_reserved(token.text)) error(token.line, "can't assign to " + describe(token));
  const int line = token.line;
  const std::string name = next().text;
  if (with_namespace && skip_op(".")) {
    Expr* node = new_expr(ExprKind::NamespaceRef, line);
    node->name = name;
    node->attribute = expect_name();
    attributes_.insert(node->attribute);
    return node;
  }
  if (name == "loop" && loops_ > 0) error(line, "can't assign to the special loop variable");
  stored_.insert(name);
  Expr* node = new_expr(ExprKind::Name, line);
  node->name = name;
  return node;
}

Expr* Parser::parse_expression(bool with_cond) {
  const Nested level(*this);
  if (!with_cond) return parse_or();
  int line = current().line;
  Expr* node = parse_or();
  while (skip_name("if")) {
    Expr* test = parse_or();
    Expr* other = skip_name("else") ? parse_expression() : nullptr;
    node = new_expr(ExprKind::Cond, line, {test, node, other});
    line = current().line;
  }
  return node;
}

Expr* Parser::parse_or() {
  Expr* left = parse_and();
  while (at_name("or")) {
    const int line = next().line;
    left = new_expr(ExprKind::Or, line, {left, parse_and()});
  }
  return left;
}

Expr* Parser::parse_and() {
  Expr* left = parse_not();
  while (at_name("and")) {
    const int line = next().line;
    left = new_expr(ExprKind::And, line, {left, parse_not()});
  }
  return left;
}

Expr* Parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nested level(*this);
  const int line = next().line;
  return new_expr(ExprKind::Not, line, {parse_not()});
}

Expr* Parser::parse_compare() {
  const int line = current().line;
  std::vector<Expr*> items{parse_math1()};
  std::vector<Op> ops;
  for (;;) {
    if (const OpRow* row = find_op(kCompareOps, current())) {
      next();
      ops.push_back(row->op);
    } else if (skip_name("in")) {
      ops.push_back(Op::In);
    } else if (at_name("not") && look().kind == TokenKind::Name && look().text == "in") {
      next();
      next();
      ops.push_back(Op::NotIn);
    } else {
      break;
    }
    items.push_back(parse_math1());
  }
  if (ops.empty()) return items[0];
  Expr* node = new_expr(ExprKind::Compare, line, std::move(items));
  node->ops = std::move(ops);
  return node;
}

Expr* Parser::parse_math1() {
  Expr* left = parse_concat();
  while (const OpRow* row = find_op(kMath1Ops, current())) {
    const int line = next().line;
    left = new_expr(ExprKind::Binary, line, {left, parse_concat()});
    left->op = row->op;
  }
  return left;
}

Expr* Parser::parse_concat() {
  const int line = current().line;
  std::vector<Expr*> items{parse_math2()};
  while (skip_op("~")) items.push_back(parse_math2());
  return items.size() == 1 ? items[0] : new_expr(ExprKind::Concat, line, std::move(items));
}

Expr* Parser::parse_math2() {
  Expr* left = parse_pow();
  while (const OpRow* row = find_op(kMath2Ops, current())) {
    const int line = next().line;
    left = new_expr(ExprKind::Binary, line, {left, parse_pow()});
    left->op = row->op;
  }
  return left;
}

Expr* Parser::parse_pow() {
  Expr* left = parse_unary();
  while (at_op("**")) {
    const int line = next().line;
    left = new_expr(ExprKind::Binary, line, {left, parse_unary()});
    left->op = Op::Pow;
  }
  return left;
}

Expr* Parser::parse_unary(bool with_filter) {
  const Nested level(*this);
  const int line = current().line;
  Expr* node = nullptr;
  if (skip_op("-")) {
    node = new_expr(ExprKind::Neg, line, {parse_unary(false)});
  } else if (skip_op("+")) {
    node = new_expr(ExprKind::Pos, line, {parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return with_filter ? parse_filter_expr(node) : node;
}

Expr* Parser::parse_primary() {
  const Token& token = current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::Name: {
      const std::string name = next().text;
      if (is_reserved(name)) {
        Expr* node = new_expr(ExprKind::Const, line);
        if (name != "none" && name != "None") node->value = Value::boolean_of(name == "true" || name == "True");
        return node;
      }
      Expr* node = new_expr(ExprKind::Name, line);
      node->name = name;
      return node;
    }
    case TokenKind::String: {
      std::string text = next().text;
      while (current().kind == TokenKind::String) text += next().text;
      Expr* node = new_expr(ExprKind::Const, line);
      node->value = Value::string(std::move(text));
      return node;
    }
    case TokenKind::Integer:
    case TokenKind::Float: {
      Expr* node = new_expr(ExprKind::Const, line);
      node->value = next().value;
      return node;
    }
    default:
      break;
  }
  if (skip_op("(")) {
    Expr* node = parse_tuple(true, {}, true);
    expect_op(")");
    return node;
  }
  if (at_op("[")) return parse_list();
  if (at_op("{")) return parse_dict();
  error(line, "unexpected " + describe(token));
}

Expr* Parser::parse_list() {
  const int line = next().line;
  std::vector<Expr*> items;
  while (!at_op("]")) {
    if (!items.empty()) expect_op(",");
    if (at_op("]")) break;
    items.push_back(parse_expression());
  }
  next();
  return new_expr(ExprKind::List, line, std::move(items));
}

Expr* Parser::parse_dict() {
  const int line = next().line;
  std::vector<Expr*> items;
  while (!at_op("}")) {
    if (!items.empty()) expect_op(",");
    if (at_op("}")) break;
    Expr* key = parse_expression();
    if (key->kind == ExprKind::Const && key->value.is_string()) attributes_.insert(key->value.text());
    expect_op(":");
    items.push_back(key);
    items.push_back(parse_expression());
  }
  next();
  return new_expr(ExprKind::Dict, line, std::move(items));
}

Expr* Parser::parse_postfix(Expr* node) {
  for (;;) {
    if (at_op(".") || at_op("[")) {
      node = parse_subscript(node);
    } else if (at_op("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

Expr* Parser::parse_filter_expr(Expr* node) {
  for (;;) {
    if (skip_op("|")) {
      node = parse_filter(node);
    } else if (at_name("is")) {
      node = parse_test(node);
    } else if (at_op("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

Expr* Parser::parse_subscript(Expr* node) {
  const int line = current().line;
  if (next().text == ".") {
    if (current().kind == TokenKind::Name) {
      const std::string name = next().text;
      Expr* result = new_expr(ExprKind::Getattr, line, {node});
      result->name = name;
      return result;
    }
    if (current().kind != TokenKind::Integer) error(current().line, "expected a name or a number");
    Expr* index = new_expr(ExprKind::Const, line);
    index->value = next().value;
    return new_expr(ExprKind::Getitem, line, {node, index});
  }
  std::vector<Expr*> args;
  while (!at_op("]")) {
    if (!args.empty()) expect_op(",");
    args.push_back(parse_subscribed());
  }
  next();
  if (args.size() == 1) return new_expr(ExprKind::Getitem, line, {node, args[0]});
  for (const Expr* arg : args) {
    if (arg->kind == ExprKind::Slice) unsupported(line, "a slice among several subscripts");
  }
  return new_expr(ExprKind::Getitem, line, {node, new_expr(ExprKind::Tuple, line, std::move(args))});
}

Expr* Parser::parse_subscribed() {
  const int line = current().line;
  Expr* start = nullptr;
  if (!at_op(":")) {
    start = parse_expression();
    if (!at_op(":")) return start;
  }
  next();
  const auto at_end = [this] { return at_op("]") || at_op(",") || at_op(":"); };
  Expr* stop = at_end() ? nullptr : parse_expression();
  Expr* step = nullptr;
  if (skip_op(":")) step = at_op("]") || at_op(",") ? nullptr : parse_expression();
  return new_expr(ExprKind::Slice, line, {start, stop, step});
}

Arguments Parser::parse_arguments() {
  const int line = current().line;
  expect_op("(");
  Arguments args;
  bool needs_comma = false;
  const auto ensure = [&](bool fits) {
    if (!fits) error(line, "invalid syntax for a call");
  };
  while (!at_op(")")) {
    if (needs_comma) {
      expect_op(",");
      if (at_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(!args.star && !args.star_star);
      args.star = parse_expression();
    } else if (skip_op("**")) {
      ensure(!args.star_star);
      args.star_star = parse_expression();
    } else if (current().kind == TokenKind::Name && look().kind == TokenKind::Operator && look().text == "=") {
      ensure(!args.star_star);
      const std::string key = next().text;
      next();
      for (const Keyword& k : args.keywords) ensure(k.name != key);
      attributes_.insert(key);
      args.keywords.push_back({key, parse_expression()});
    } else {
      ensure(!args.star && !args.star_star && args.keywords.empty());
      args.positional.push_back(parse_expression());
    }
    needs_comma = true;
  }
  next();
  return args;
}

Expr* Parser::parse_call(Expr* callee) {
  const int line = current().line;
  Expr* node = new_expr(ExprKind::Call, line, {callee});
  node->args = parse_arguments();
  measure(node);
  calls_.push_back(node);
  return node;
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name.append(1, '.').append(expect_name());
  return name;
}

Expr* Parser::parse_filter(Expr* value) {
  const int line = current().line;
  const std::string name = parse_dotted_name();
  Expr* node = new_expr(ExprKind::Filter, line, {value});
  node->name = name;
  node->filter = find_filter(name);
  if (!node->filter) unsupported(line, fmt::format("unknown filter '{}'", name));
  if (at_op("(")) node->args = parse_arguments();
  measure(node);
  check_name_argument(node);
  return node;
}

// map('upper') and select('odd') name filters and tests in strings: those are checked as well.
void Parser::check_name_argument(const Expr* filter) const {
  const std::vector<Expr*>& args = filter->args.positional;
  const bool by_attribute = filter->name == "selectattr" || filter->name == "rejectattr";
  const bool names_test = by_attribute || filter->name == "select" || filter->name == "reject";
  const size_t i = by_attribute ? 1 : 0;
  if ((!names_test && filter->name != "map") || i >= args.size() || args[i]->kind != ExprKind::Const) return;
  const Value& name = args[i]->value;
  if (!name.is_string() || (names_test ? find_test(name.text()) != nullptr : find_filter(name.text()) != nullptr))
    return;
  unsupported(filter->line, fmt::format("unknown {} '{}'", names_test ? "test" : "filter", name.text()));
}

Expr* Parser::parse_test(Expr* value) {
  const int line = next().line;
  const bool is_negated = skip_name("not");
  const std::string name = parse_dotted_name();
  Expr* node = new_expr(ExprKind::Test, line, {value});
  node->name = name;
  node->test = find_test(name);
  if (!node->test) unsupported(line, fmt::format("unknown test '{}'", name));
  const TokenKind kind = current().kind;
  if (at_op("(")) {
    node->args = parse_arguments();
  } else if ((kind == TokenKind::Name || kind == TokenKind::String || kind == TokenKind::Integer ||
              kind == TokenKind::Float || at_op("[") || at_op("{")) &&
             !at_any_name({"else", "or", "and"})) {
    if (at_name("is")) error(current().line, "you cannot chain tests with is");
    node->args.positional.push_back(parse_postfix(parse_primary()));
  }
  measure(node);
  return is_negated ? new_expr(ExprKind::Not, line, {node}) : node;
}

}  // namespace loft::jinja
