// text/jinja: tokens to the tree of ast.h, by recursive descent in jinja2's grammar. Every filter, test, tag, function
// and method must be known here already. Statements are in parse_statement.cc, expressions in parse_expression.cc.
#pragma once
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace loft::jinja {

/// Levels of nesting, of statements and expressions together, that a template may have.
constexpr int kMaxNesting = 150;
/// Levels of one expression's tree: a chain such as a + b + c adds one level a term without nesting.
constexpr int kMaxExprDepth = 200;

/// Parses and resolves. Errors, all with "where:line": Corrupt for a syntax error, Unsupported for unknown tags,
/// filters, tests, functions, methods, and for nesting deeper than kMaxNesting.
std::unique_ptr<Tree> parse_template(std::string_view text, std::string_view where);

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::string_view where, Tree& tree)
      : tokens_(std::move(tokens)), where_(where), tree_(tree) {}
  void run();

 private:
  using Words = std::initializer_list<std::string_view>;
  class Nested;

  // Tokens.
  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  const Token& next();
  bool at_op(std::string_view op) const { return current().kind == TokenKind::Operator && current().text == op; }
  bool at_name(std::string_view name) const { return current().kind == TokenKind::Name && current().text == name; }
  bool at_any_name(Words names) const;
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  std::string expect_name();
  void expect_kind(TokenKind kind, const char* what);
  [[noreturn]] void error(int line, const std::string& what) const;
  [[noreturn]] void unsupported(int line, const std::string& what) const;
  std::string describe(const Token& token) const;

  // Statements.
  Body parse_body(Words end_names, bool drop_end = true);
  Body subparse(Words end_names);
  Stmt* parse_statement();
  Stmt* parse_for(int line);
  Stmt* parse_if(int line);
  Stmt* parse_set(int line);
  Stmt* parse_macro(int line);
  Stmt* parse_call_block(int line);
  Stmt* parse_filter_block(int line);
  Stmt* parse_with(int line);
  Stmt* parse_generation(int line);
  Stmt* parse_break(int line);
  Stmt* parse_continue(int line);
  struct TagRow;
  static const TagRow kTags[];
  void parse_signature(MacroBody& macro);
  void add_part(Body& body, OutputPart part, int line);
  Stmt* new_stmt(StmtKind kind, int line);
  void check_names() const;

  // Expressions.
  Expr* parse_tuple(bool with_cond, Words end_names, bool has_parentheses);
  Expr* parse_target(Words end_names, bool with_namespace);
  Expr* parse_target_primary(bool with_namespace);
  Expr* parse_expression(bool with_cond = true);
  Expr* parse_or();
  Expr* parse_and();
  Expr* parse_not();
  Expr* parse_compare();
  Expr* parse_math1();
  Expr* parse_concat();
  Expr* parse_math2();
  Expr* parse_pow();
  Expr* parse_unary(bool with_filter = true);
  Expr* parse_primary();
  Expr* parse_list();
  Expr* parse_dict();
  Expr* parse_postfix(Expr* node);
  Expr* parse_filter_expr(Expr* node);
  Expr* parse_subscript(Expr* node);
  Expr* parse_subscribed();
  Expr* parse_call(Expr* node);
  Expr* parse_filter(Expr* node);  // at the name, or for a null node at '|' or the name
  Expr* parse_test(Expr* node);
  Arguments parse_arguments();
  bool is_tuple_end(Words end_names) const;
  std::string parse_dotted_name();
  void check_name_argument(const Expr* filter) const;
  Expr* new_expr(ExprKind kind, int line, std::vector<Expr*> items = {});
  void measure(Expr* node) const;  // sets depth

  std::vector<Token> tokens_;
  std::string_view where_;
  Tree& tree_;
  size_t pos_ = 0;
  int nesting_ = 0;
  int loops_ = 0;                     // loops around the current statement, within its function
  std::set<std::string> stored_;      // names that the template assigns
  std::set<std::string> attributes_;  // attributes and keys that may hold something to call
  std::vector<const Expr*> calls_;
  friend class Nested;
};

class Parser::Nested {  // one level of nesting, for as long as it lives
 public:
  explicit Nested(Parser& parser);
  ~Nested() { --parser_.nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Parser& parser_;
};

}  // namespace loft::jinja
