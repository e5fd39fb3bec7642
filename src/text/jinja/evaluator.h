// text/jinja: runs a resolved tree. Enters: the tree, the variables of one render. Leaves: the text, or an Error
// BadRequest. The budget bounds time and memory together: every step, every item made and every kStepBytes bytes of
// text made cost one step.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/macro.h"
#include "text/jinja/value.h"

namespace loft::jinja {

constexpr int64_t kMaxSteps = 10'000'000;
constexpr size_t kMaxTextBytes = size_t(16) << 20;  // of the output, and of any string on the way
constexpr size_t kStepBytes = 32;
/// Evaluation levels (expressions, statements, macro calls) that may be open at once.
constexpr int kMaxEvalDepth = 1000;

class Budget {
 public:
  void spend(int64_t steps) {
    left_ -= steps;
    if (left_ < 0) bad("the template needs more than {} steps", kMaxSteps);
  }
  /// To be called before a string of that size is made.
  void spend_text(size_t bytes) {
    if (bytes > kMaxTextBytes) bad("the template makes a text of more than {} MiB", kMaxTextBytes >> 20);
    spend(int64_t(bytes / kStepBytes));
  }

 private:
  int64_t left_ = kMaxSteps;
};

struct Args {
  Items positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// Arguments sorted by parameter, as Python does it. A parameter that was not given is Missing.
/// Errors: BadRequest for too many, unknown, repeated or (below `n_required`) absent ones.
class Params {
 public:
  Params(const char* function, const Args& args, std::initializer_list<const char*> names, size_t n_required = 0);
  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_missing(); }
  bool is_given(size_t i) const { return has(i) && !values_[i].is(Kind::None); }  // and not None

 private:
  std::vector<Value> values_;
};

class Evaluator {
 public:
  Evaluator(const Tree& tree, const Dict& variables, std::optional<int64_t> now_unix)
      : tree_(tree), variables_(variables), now_unix_(now_unix) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  std::string run();
  int line() const { return line_; }  // of what is being run, for messages

  // For filters, tests, methods and functions.
  Budget& budget() { return budget_; }
  Value call(const Value& callee, const Args& args);
  Value call_loop(Loop& loop, const Value& items);
  Value apply(const FilterRow& filter, const Value& value, const Args& args);
  Value text(std::string s, bool markup = false);  // counted
  Value list(Items items);
  /// Walks lists, dicts (keys), strings (code points), ranges, views, iterators. Errors: BadRequest for anything else.
  Pull pull_from(const Value& v);
  Items items_of(const Value& v);
  std::optional<int64_t> now_unix() const { return now_unix_; }
  /// Takes part in a cycle perhaps: emptied at the end of the render.
  void keep(std::shared_ptr<Namespace> ns) { namespaces_.push_back(std::move(ns)); }
  void keep_loop(const Value& loop) { loops_.push_back(loop); }

 private:
  enum class Flow { Normal, Break, Continue };
  class Level;
  using Scope = std::shared_ptr<Activation>;

  // evaluator.cc
  Flow run_body(const Body& body, const Scope& scope);
  Flow run_stmt(const Stmt& s, const Scope& scope);
  Flow run_if(const Stmt& s, const Scope& scope);
  void run_output(const Stmt& s, const Scope& scope);
  Flow run_for(const Stmt& s, const Scope& scope);
  void run_loop(const Stmt& s, const Value& items, int depth, const Scope& scope, const Scope& outer);
  void run_set(const Stmt& s, const Scope& scope);
  void run_captured(const Stmt& s, const Scope& scope);
  void run_with(const Stmt& s, const Scope& scope);
  void run_call_block(const Stmt& s, const Scope& scope);
  void enter(const ScopeEntry& entry, Activation& scope);
  void check_target(const Target& target, const Scope& scope);
  void assign(const Target& target, Value value, const Scope& scope);
  void print(const Value& v);
  void write(std::string_view text);
  std::string capture(const Body& body, const Scope& scope);
  Value make_macro(const MacroBody& body, const Scope& scope);
  static Value& slot(const VarRef& ref, const Scope& scope);
  Scope new_scope(const Function& function, Scope outer);

  // eval_expression.cc
  Value eval(const Expr* e, const Scope& scope);
  Value eval_name(const Expr& e, const Scope& scope);
  Value eval_items(const Expr& e, const Scope& scope);
  Value eval_dict(const Expr& e, const Scope& scope);
  Value eval_binary(const Expr& e, const Scope& scope);
  Value eval_compare(const Expr& e, const Scope& scope);
  Value eval_concat(const Expr& e, const Scope& scope);
  Value eval_getitem(const Expr& e, const Scope& scope);
  Value eval_getattr(const Expr& e, const Scope& scope);
  Value eval_unary(const Expr& e, const Scope& scope);
  Value eval_cond(const Expr& e, const Scope& scope);
  Value eval_filter(const Expr& e, const Scope& scope, const Value* captured = nullptr);
  Value eval_test(const Expr& e, const Scope& scope);
  Value eval_call(const Expr& e, const Scope& scope, const Value* caller = nullptr);
  Value call_method(const Expr& e, const Scope& scope, const Value* caller);
  Args eval_args(const Arguments& arguments, const Scope& scope);

  // call.cc
  Value call_macro(const Macro& macro, const Args& args);
  void bind_macro(const MacroBody& body, const Args& args, Activation& scope);
  void bind_special(const MacroBody& body, const Args& args, Activation& scope);

  const Tree& tree_;
  const Dict& variables_;
  std::optional<int64_t> now_unix_;
  Budget budget_;
  int depth_ = 0;
  int line_ = 1;
  std::string output_;
  std::string* out_ = &output_;
  std::vector<Scope> kept_;  // activations that macros hold
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  Items loops_;
};

class Evaluator::Level {  // one open level, for as long as it lives
 public:
  explicit Level(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > kMaxEvalDepth) {
      --evaluator_.depth_;
      bad("the template calls itself too deeply");
    }
  }
  ~Level() { --evaluator_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Evaluator& evaluator_;
};

}  // namespace loft::jinja
