#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/parser.h"
#include "text/jinja/scope.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {

struct Parser::TagRow {
  std::string_view name;
  Stmt* (Parser::*parse)(int line);
};

const Parser::TagRow Parser::kTags[] = {
    {"for", &Parser::parse_for},         {"if", &Parser::parse_if},
    {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
    {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
    {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation},
    {"break", &Parser::parse_break},     {"continue", &Parser::parse_continue},
};

// Tags that jinja2 has and loft does not: they need other templates, or change how text is escaped.
constexpr std::string_view kRefusedTags[] = {"import", "from", "include", "extends", "block", "autoescape"};

std::unique_ptr<Tree> parse_template(std::string_view text, std::string_view where) {
  auto tree = std::make_unique<Tree>();
  Parser(tokenize(text, where), where, *tree).run();
  resolve_scopes(*tree);
  return tree;
}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    --parser_.nesting_;
    parser_.unsupported(parser_.current().line, fmt::format("nested deeper than {} levels", kMaxNesting));
  }
}

void Parser::run() {
  tree_.body = subparse({});
  if (current().kind != TokenKind::End) error(current().line, "unexpected end of a block");
  check_names();
}

const Token& Parser::next() {
  const Token& token = tokens_[pos_];
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return token;
}

bool Parser::at_any_name(Words names) const {
  return current().kind == TokenKind::Name && std::find(names.begin(), names.end(), current().text) != names.end();
}

bool Parser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  next();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) error(current().line, fmt::format("expected '{}', got {}", op, describe(current())));
}

std::string Parser::expect_name() {
  if (current().kind != TokenKind::Name) error(current().line, "expected a name, got " + describe(current()));
  return next().text;
}

void Parser::expect_kind(TokenKind kind, const char* what) {
  if (current().kind != kind) error(current().line, fmt::format("expected {}, got {}", what, describe(current())));
  next();
}

void Parser::error(int line, const std::string& what) const {
  fail(Code::Corrupt, "{}:{}: {}", where_, line, what);
}

void Parser::unsupported(int line, const std::string& what) const {
  fail(Code::Unsupported, "{}:{}: {}", where_, line, what);
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::End:
      return "the end of the template";
    case TokenKind::BlockEnd:
      return "'%}'";
    case TokenKind::VariableEnd:
      return "'}}'";
    default:
      return repr_of_string(token.text);
  }
}

Stmt* Parser::new_stmt(StmtKind kind, int line) {
  Stmt& stmt = tree_.stmts.emplace_back();
  stmt.kind = kind;
  stmt.line = line;
  return &stmt;
}

void Parser::add_part(Body& body, OutputPart part, int line) {
  if (body.empty() || body.back()->kind != StmtKind::Output) body.push_back(new_stmt(StmtKind::Output, line));
  body.back()->parts.push_back(std::move(part));
}

Body Parser::subparse(Words end_names) {
  const Nested level(*this);
  Body body;
  while (current().kind != TokenKind::End) {
    const Token& token = current();
    if (token.kind == TokenKind::Data) {
      add_part(body, {token.text, nullptr}, token.line);
      next();
    } else if (token.kind == TokenKind::VariableBegin) {
      const int line = next().line;
      const Expr* expr = parse_tuple(true, {}, false);
      expect_kind(TokenKind::VariableEnd, "'}}'");
      add_part(body, {"", expr}, line);
    } else {
      expect_kind(TokenKind::BlockBegin, "a tag");
      if (at_any_name(end_names)) return body;
      body.push_back(parse_statement());
      expect_kind(TokenKind::BlockEnd, "'%}'");
    }
  }
  return body;
}

Body Parser::parse_body(Words end_names, bool drop_end) {
  skip_op(":");
  expect_kind(TokenKind::BlockEnd, "'%}'");
  const int line = current().line;
  Body body = subparse(end_names);
  if (current().kind == TokenKind::End) {
    error(line, fmt::format("the block that starts here is not closed: expected '{}'", *(end_names.end() - 1)));
  }
  if (drop_end) next();
  return body;
}

Stmt* Parser::parse_statement() {
  if (current().kind != TokenKind::Name) error(current().line, "tag name expected");
  const std::string name = current().text;
  const int line = next().line;
  for (const TagRow& row : kTags) {
    if (row.name == name) return (this->*row.parse)(line);
  }
  if (name == "print") {
    Stmt* stmt = new_stmt(StmtKind::Output, line);
    do {
      stmt->parts.push_back({"", parse_expression()});
    } while (skip_op(","));
    return stmt;
  }
  if (std::find(std::begin(kRefusedTags), std::end(kRefusedTags), name) != std::end(kRefusedTags)) {
    unsupported(line, fmt::format("the tag '{}' is not supported in chat templates", name));
  }
  unsupported(line, fmt::format("unknown tag '{}'", name));
}

Stmt* Parser::parse_for(int line) {
  Stmt* stmt = new_stmt(StmtKind::For, line);
  ++loops_;  // the target may not be named loop
  stmt->targets.push_back(parse_target({"in"}, false));
  --loops_;
  if (!skip_name("in")) error(current().line, "expected 'in', got " + describe(current()));
  stmt->values.push_back(parse_tuple(false, {"recursive"}, false));
  if (skip_name("if")) stmt->test = parse_expression();
  stmt->recursive = skip_name("recursive");
  ++loops_;
  stmt->body = parse_body({"else", "endfor"}, false);
  --loops_;
  if (next().text == "else") stmt->else_body = parse_body({"endfor"});
  return stmt;
}

Stmt* Parser::parse_if(int line) {
  Stmt* stmt = new_stmt(StmtKind::If, line);
  for (;;) {
    Branch branch;
    branch.test = parse_tuple(false, {}, false);
    branch.body = parse_body({"elif", "else", "endif"}, false);
    stmt->branches.push_back(std::move(branch));
    const std::string end = next().text;
    if (end == "elif") continue;
    if (end == "else") stmt->branches.push_back({nullptr, parse_body({"endif"})});
    return stmt;
  }
}

Stmt* Parser::parse_set(int line) {
  Expr* target = parse_target({}, true);
  if (skip_op("=")) {
    Stmt* stmt = new_stmt(StmtKind::Set, line);
    stmt->targets.push_back(target);
    stmt->values.push_back(parse_tuple(true, {}, false));
    return stmt;
  }
  Stmt* stmt = new_stmt(StmtKind::SetBlock, line);
  stmt->targets.push_back(target);
  Expr* filter = nullptr;
  while (skip_op("|")) filter = parse_filter(filter);
  if (filter) stmt->values.push_back(filter);
  stmt->body = parse_body({"endset"});
  return stmt;
}

void Parser::parse_signature(MacroBody& macro) {
  expect_op("(");
  while (!at_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const int line = current().line;
    Parameter parameter{expect_name(), nullptr, 0};
    stored_.insert(parameter.name);
    if (skip_op("=")) {
      parameter.default_value = parse_expression();
    } else if (!macro.parameters.empty() && macro.parameters.back().default_value) {
      error(line, "a parameter without a default follows one with a default");
    }
    for (const Parameter& other : macro.parameters) {
      if (other.name == parameter.name) error(line, fmt::format("the parameter '{}' stands twice", other.name));
    }
    macro.parameters.push_back(std::move(parameter));
  }
  expect_op(")");
}

Stmt* Parser::parse_macro(int line) {
  Stmt* stmt = new_stmt(StmtKind::Macro, line);
  stmt->macro = &tree_.macros.emplace_back();
  stmt->macro->name = expect_name();
  stored_.insert(stmt->macro->name);
  parse_signature(*stmt->macro);
  const int outer_loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_body({"endmacro"});
  loops_ = outer_loops;
  return stmt;
}

Stmt* Parser::parse_call_block(int line) {
  Stmt* stmt = new_stmt(StmtKind::CallBlock, line);
  stmt->macro = &tree_.macros.emplace_back();
  if (at_op("(")) parse_signature(*stmt->macro);
  Expr* call = parse_expression();
  if (call->kind != ExprKind::Call) error(line, "expected a call");
  stmt->values.push_back(call);
  const int outer_loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_body({"endcall"});
  loops_ = outer_loops;
  return stmt;
}

Stmt* Parser::parse_filter_block(int line) {
  Stmt* stmt = new_stmt(StmtKind::FilterBlock, line);
  Expr* filter = parse_filter(nullptr);
  while (skip_op("|")) filter = parse_filter(filter);
  stmt->values.push_back(filter);
  stmt->body = parse_body({"endfilter"});
  return stmt;
}

Stmt* Parser::parse_with(int line) {
  Stmt* stmt = new_stmt(StmtKind::With, line);
  while (current().kind != TokenKind::BlockEnd) {
    if (!stmt->targets.empty()) expect_op(",");
    stmt->targets.push_back(parse_target({}, false));
    expect_op("=");
    stmt->values.push_back(parse_expression());
  }
  stmt->body = parse_body({"endwith"});
  return stmt;
}

// transformers marks the assistant's text with this tag; the text itself passes through unchanged.
Stmt* Parser::parse_generation(int line) {
  Stmt* stmt = new_stmt(StmtKind::Scope, line);
  const int outer_loops = std::exchange(loops_, 0);
  stmt->body = parse_body({"endgeneration"});
  loops_ = outer_loops;
  return stmt;
}

Stmt* Parser::parse_break(int line) {
  if (loops_ == 0) error(line, "'break' outside a loop");
  return new_stmt(StmtKind::Break, line);
}

Stmt* Parser::parse_continue(int line) {
  if (loops_ == 0) error(line, "'continue' outside a loop");
  return new_stmt(StmtKind::Continue, line);
}

// A call is legal when what it calls can exist: a global, a name that the template assigns, a method of some type, or
// an attribute that the template itself fills.
void Parser::check_names() const {
  for (const Expr* call : calls_) {
    const Expr* callee = call->items[0];
    if (callee->kind == ExprKind::Name) {
      const bool special = callee->name == "caller" || callee->name == "loop";
      if (special || stored_.count(callee->name) || find_function(callee->name)) continue;
      unsupported(callee->line, fmt::format("unknown function '{}'", callee->name));
    }
    if (callee->kind == ExprKind::Getattr) {
      if (is_method_name(callee->name) || attributes_.count(callee->name)) continue;
      unsupported(callee->line, fmt::format("unknown method '{}'", callee->name));
    }
  }
}

}  // namespace loft::jinja
