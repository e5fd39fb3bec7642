// text/jinja: the tree of a parsed template. The parser builds it, scope.cc gives every name its slot, the evaluator
// walks it. Nodes live in the Tree's own lists and point at each other, so no destructor is recursive. Const once
// resolved.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace loft::jinja {

struct FilterRow;
struct TestRow;

enum class ExprKind : uint8_t {
  Const,
  Name,
  Tuple,
  List,
  Dict,
  Getattr,
  Getitem,
  Slice,
  Call,
  Filter,
  Test,
  Not,
  Neg,
  Pos,
  Binary,
  And,
  Or,
  Compare,
  Concat,
  Cond,
  NamespaceRef
};

enum class Op : uint8_t { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, Eq, Ne, Lt, Le, Gt, Ge, In, NotIn };

/// Where a variable lives: `up` activations outwards, then the slot there.
struct VarRef {
  int up = 0;
  int slot = 0;
};

struct Expr;

struct Keyword {
  std::string name;
  Expr* value = nullptr;
};

struct Arguments {
  std::vector<Expr*> positional;
  std::vector<Keyword> keywords;
  Expr* star = nullptr;       // *args
  Expr* star_star = nullptr;  // **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::Const;
  Op op = Op::Add;
  int line = 0;
  int depth = 1;             // levels of this subtree
  std::string name;          // Name, Getattr, Filter, Test, NamespaceRef (the variable)
  std::string attribute;     // NamespaceRef
  Value value;               // Const
  std::vector<Expr*> items;  // operands in order; Dict: key, value, key, value; Slice and Cond may hold null
  std::vector<Op> ops;       // Compare: one fewer than items
  Arguments args;            // Call, Filter, Test
  VarRef ref;                // Name, NamespaceRef
  const FilterRow* filter = nullptr;
  const TestRow* test = nullptr;
};

/// Where an assignment goes; compiled from Name, Tuple and NamespaceRef expressions.
struct Target {
  enum Kind { Name, Tuple, Attribute } kind = Name;
  VarRef ref;
  std::string attribute;
  std::vector<Target> items;
};

enum class StmtKind : uint8_t {
  Output,
  If,
  For,
  Set,
  SetBlock,
  Macro,
  CallBlock,
  FilterBlock,
  With,
  Scope,
  Break,
  Continue
};

struct SlotInit {
  enum Action { Undefined, Alias, Resolve } action = Undefined;
  int slot = 0;
  VarRef source;     // Alias
  std::string name;  // Resolve: a variable of the render, or a global
};
/// What a scope does to its slots when it is entered.
using ScopeEntry = std::vector<SlotInit>;

/// One body with an activation of its own: the template, a macro, a call block, a recursive loop, a loop's condition.
struct Function {
  int n_slots = 0;
};

struct OutputPart {
  std::string text;            // template data, or
  const Expr* expr = nullptr;  // a value to print
};

struct Stmt;
using Body = std::vector<Stmt*>;

struct Branch {
  Expr* test = nullptr;
  Body body;
};

struct Parameter {
  std::string name;
  Expr* default_value = nullptr;
  int slot = 0;
};

/// A macro or the body of a call block. Slots are -1 where the body does not use the special variable.
struct MacroBody {
  std::string name;
  std::vector<Parameter> parameters;
  int caller_slot = -1;
  int kwargs_slot = -1;
  int varargs_slot = -1;
  bool has_caller_parameter = false;
  Function function;
  ScopeEntry entry;
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::Output;
  int line = 0;
  std::vector<OutputPart> parts;  // Output
  std::vector<Branch> branches;   // If: a last one without a test is the else
  std::vector<Expr*> targets;     // For and Set: one; With: as many as values
  std::vector<Expr*>
      values;            // For: what is walked; Set: the value; CallBlock: the call; FilterBlock, SetBlock: the filter
  Expr* test = nullptr;  // For
  Body body;
  Body else_body;              // For
  bool recursive = false;      // For
  MacroBody* macro = nullptr;  // Macro, CallBlock

  // From scope.cc:
  std::vector<Target> compiled_targets;
  Target test_target;  // For: the target inside the condition
  ScopeEntry entry;
  ScopeEntry else_entry;
  ScopeEntry test_entry;
  Function test_function;
  Function function;   // For, recursive
  VarRef macro_ref;    // Macro: where it is stored
  int loop_slot = -1;  // For
};

struct Tree {
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::deque<MacroBody> macros;
  Body body;
  Function function;
  ScopeEntry entry;
};

}  // namespace loft::jinja
