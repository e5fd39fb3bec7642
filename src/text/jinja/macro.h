// text/jinja: the values that reach into the evaluator: macros with the activation they were made in, bound methods,
// global functions and the `loop` variable.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace loft::jinja {

struct MacroBody;
struct FunctionRow;
struct MethodRow;
struct Stmt;

/// The variables of one run of a body. `outer` is the activation in which that body was written.
struct Activation {
  std::vector<Value> slots;
  std::shared_ptr<Activation> outer;
  bool is_kept = false;  // in the evaluator's list of activations that macros hold
};

struct Macro {
  std::string name;
  const MacroBody* body = nullptr;
  std::shared_ptr<Activation> outer;
};

struct Method {
  const MethodRow* row = nullptr;
  const char* name = "";
  Value self;
};

/// Gives the next item of a walk; false when there is none.
using Pull = std::function<bool(Value*)>;

/// A loop in progress. `pull` is asked one item ahead at most, and only when a template asks for the next item, as
/// jinja2 does it. The evaluator takes `pull` away when the loop ends.
struct Loop {
  Pull pull;
  std::optional<size_t> known_length;
  Value before = Value::missing();
  Value current = Value::missing();
  Value after = Value::missing();
  Int index0 = -1;
  int depth0 = 0;
  Extent extent;  // of what is walked
  Items last_changed;
  bool was_changed = false;
  const Stmt* recursive = nullptr;  // the loop that loop(...) runs again
  std::shared_ptr<Activation> outer;

  bool is_pulling = false;

  bool pull_next(Value* v);
  bool advance();
  const Value* peek();  // null at the end
  size_t length();      // walks to the end when nothing is known beforehand
};

}  // namespace loft::jinja
