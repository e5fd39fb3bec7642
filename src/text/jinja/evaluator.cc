#include "text/jinja/evaluator.h"

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {

// A condition may ask the loop it belongs to for its length; jinja2's generators refuse that as well.
bool Loop::pull_next(Value* v) {
  if (is_pulling) bad("generator already executing");
  if (!pull) return false;
  struct Busy {
    bool& flag;
    ~Busy() { flag = false; }
  };
  const Busy busy{is_pulling};
  is_pulling = true;
  return pull(v);
}

bool Loop::advance() {
  Value next = after;
  if (next.is_missing() && !pull_next(&next)) return false;
  after = Value::missing();
  ++index0;
  before = std::exchange(current, std::move(next));
  return true;
}

const Value* Loop::peek() {
  if (after.is_missing() && !pull_next(&after)) {
    after = Value::missing();
    return nullptr;
  }
  return &after;
}

size_t Loop::length() {
  if (known_length) return *known_length;
  auto rest = std::make_shared<Items>();
  for (Value v; pull_next(&v);) rest->push_back(v);
  known_length = rest->size() + size_t(index0 + 1) + (after.is_missing() ? 0 : 1);
  pull = [rest, i = size_t(0)](Value* v) mutable {
    if (i == rest->size()) return false;
    *v = (*rest)[i++];
    return true;
  };
  return *known_length;
}

// Values may hold each other in circles through macros, namespaces and loops; emptying those breaks every circle.
Evaluator::~Evaluator() {
  for (const Scope& scope : kept_) scope->slots.clear();
  for (const auto& ns : namespaces_) ns->attributes.clear();
  for (const Value& v : loops_) Items().swap(v.get_mutable<Loop>().last_changed);
}

std::string Evaluator::run() {
  const Scope scope = new_scope(tree_.function, nullptr);
  enter(tree_.entry, *scope);
  run_body(tree_.body, scope);
  return std::move(output_);
}

Evaluator::Scope Evaluator::new_scope(const Function& function, Scope outer) {
  budget_.spend(1 + function.n_slots);
  auto scope = std::make_shared<Activation>();
  scope->slots.assign(size_t(function.n_slots), Value::missing());
  scope->outer = std::move(outer);
  return scope;
}

Value& Evaluator::slot(const VarRef& ref, const Scope& scope) {
  Activation* a = scope.get();
  for (int i = 0; i < ref.up; ++i) a = a->outer.get();
  return a->slots[size_t(ref.slot)];
}

void Evaluator::enter(const ScopeEntry& entry, Activation& scope) {
  for (const SlotInit& init : entry) {
    Value value = Value::missing();
    if (init.action == SlotInit::Alias) {
      Activation* a = &scope;
      for (int i = 0; i < init.source.up; ++i) a = a->outer.get();
      value = a->slots[size_t(init.source.slot)];
    } else if (init.action == SlotInit::Resolve) {
      const Value* found = variables_.find(std::string_view(init.name));
      if (found) {
        value = *found;
      } else if (const FunctionRow* function = find_function(init.name)) {
        value = Value::holding(Kind::Function, std::shared_ptr<const FunctionRow>(function, [](const FunctionRow*) {}));
      }
    }
    scope.slots[size_t(init.slot)] = std::move(value);
  }
}

Evaluator::Flow Evaluator::run_body(const Body& body, const Scope& scope) {
  for (const Stmt* s : body) {
    const Flow flow = run_stmt(*s, scope);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::run_stmt(const Stmt& s, const Scope& scope) {
  const Level level(*this);
  budget_.spend(1);
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::Output:
      run_output(s, scope);
      return Flow::Normal;
    case StmtKind::If:
      return run_if(s, scope);
    case StmtKind::For:
      return run_for(s, scope);
    case StmtKind::Set:
      run_set(s, scope);
      return Flow::Normal;
    case StmtKind::Macro:
      slot(s.macro_ref, scope) = make_macro(*s.macro, scope);
      return Flow::Normal;
    case StmtKind::CallBlock:
      run_call_block(s, scope);
      return Flow::Normal;
    case StmtKind::SetBlock:
    case StmtKind::FilterBlock:
      run_captured(s, scope);
      return Flow::Normal;
    case StmtKind::With:
      run_with(s, scope);
      return run_body(s.body, scope);
    case StmtKind::Scope:
      enter(s.entry, *scope);
      return run_body(s.body, scope);
    case StmtKind::Break:
      return Flow::Break;
    case StmtKind::Continue:
      return Flow::Continue;
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::run_if(const Stmt& s, const Scope& scope) {
  for (const Branch& branch : s.branches) {
    if (!branch.test || truthy(eval(branch.test, scope))) return run_body(branch.body, scope);
  }
  return Flow::Normal;
}

void Evaluator::run_output(const Stmt& s, const Scope& scope) {
  for (const OutputPart& part : s.parts) {
    if (part.expr) {
      line_ = part.expr->line;
      print(eval(part.expr, scope));
    } else {
      write(part.text);
    }
  }
}

void Evaluator::print(const Value& v) {
  if (v.is_string()) {
    write(v.text());
  } else {
    write(to_text(v));
  }
}

void Evaluator::write(std::string_view text) {
  if (text.size() > kMaxTextBytes - std::min(out_->size(), kMaxTextBytes)) {
    bad("the template writes more than {} MiB", kMaxTextBytes >> 20);
  }
  budget_.spend(1 + int64_t(text.size() / kStepBytes));
  out_->append(text);
}

std::string Evaluator::capture(const Body& body, const Scope& scope) {
  struct Redirect {  // also undone when an error passes
    std::string*& out;
    std::string* const before;
    ~Redirect() { out = before; }
  };
  std::string text;
  const Redirect redirect{out_, out_};
  out_ = &text;
  run_body(body, scope);
  return text;
}

Evaluator::Flow Evaluator::run_for(const Stmt& s, const Scope& scope) {
  const Value items = eval(s.values[0], scope);
  if (s.recursive) {
    run_loop(s, items, 0, new_scope(s.function, scope), scope);
  } else {
    run_loop(s, items, 0, scope, scope);
  }
  return Flow::Normal;
}

// `scope` holds the loop's variables, `outer` those around it (the same activation unless the loop is recursive).
void Evaluator::run_loop(const Stmt& s, const Value& items, int depth, const Scope& scope, const Scope& outer) {
  auto loop = std::make_shared<Loop>();
  loop->depth0 = depth;
  loop->extent = extent_around({items});
  loop->recursive = s.recursive ? &s : nullptr;
  if (s.recursive) loop->outer = outer;
  Pull source = pull_from(items);
  if (s.test) {
    const Scope condition = new_scope(s.test_function, outer);
    bool entered = false;
    loop->pull = [this, &s, condition, source = std::move(source), entered](Value* v) mutable {
      if (!entered) enter(s.test_entry, *condition);
      entered = true;
      while (source(v)) {
        budget_.spend(1);
        assign(s.test_target, *v, condition);
        if (truthy(eval(s.test, condition))) return true;
      }
      return false;
    };
  } else {
    loop->pull = std::move(source);
    if (!items.is(Kind::Iterator)) loop->known_length = size_t(length_of(items).value_or(0));
  }
  struct Finish {  // what the loop still holds would be a circle
    Loop& loop;
    ~Finish() {
      loop.pull = nullptr;
      loop.outer.reset();
    }
  };
  const Finish finish{*loop};
  const Value loop_value = Value::holding(Kind::Loop, loop);
  bool is_untouched = true;
  while (loop->advance()) {
    budget_.spend(1);
    enter(s.entry, *scope);
    scope->slots[size_t(s.loop_slot)] = loop_value;
    assign(s.compiled_targets[0], loop->current, scope);
    const Flow flow = run_body(s.body, scope);
    if (flow == Flow::Break) break;
    if (flow == Flow::Normal) is_untouched = false;  // as in jinja2, `continue` in every turn leads to the else
  }
  scope->slots[size_t(s.loop_slot)] = Value::missing();
  if (is_untouched && !s.else_body.empty()) {
    enter(s.else_entry, *scope);
    run_body(s.else_body, scope);
  }
}

void Evaluator::run_set(const Stmt& s, const Scope& scope) {
  check_target(s.compiled_targets[0], scope);
  assign(s.compiled_targets[0], eval(s.values[0], scope), scope);
}

void Evaluator::check_target(const Target& target, const Scope& scope) {
  for (const Target& item : target.items) check_target(item, scope);
  if (target.kind == Target::Attribute && !slot(target.ref, scope).is(Kind::Namespace)) {
    bad("cannot assign attribute on non-namespace object");
  }
}

void Evaluator::assign(const Target& target, Value value, const Scope& scope) {
  if (target.kind == Target::Name) {
    slot(target.ref, scope) = std::move(value);
    return;
  }
  if (target.kind == Target::Attribute) {
    if (target.attribute.starts_with('_')) bad("a namespace cannot hold the attribute '{}'", target.attribute);
    slot(target.ref, scope).get_mutable<Namespace>().set(target.attribute, std::move(value));
    return;
  }
  const Items items = items_of(value);
  if (items.size() > target.items.size()) bad("too many values to unpack (expected {})", target.items.size());
  if (items.size() < target.items.size()) {
    bad("not enough values to unpack (expected {}, got {})", target.items.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i], scope);
}

void Evaluator::run_captured(const Stmt& s, const Scope& scope) {
  if (!s.compiled_targets.empty()) check_target(s.compiled_targets[0], scope);
  enter(s.entry, *scope);
  Value value = Value::string(capture(s.body, scope));
  if (!s.values.empty()) value = eval_filter(*s.values[0], scope, &value);
  if (s.kind == StmtKind::FilterBlock) {
    print(value);
  } else {
    assign(s.compiled_targets[0], std::move(value), scope);
  }
}

void Evaluator::run_with(const Stmt& s, const Scope& scope) {
  enter(s.entry, *scope);
  for (size_t i = 0; i < s.values.size(); ++i) assign(s.compiled_targets[i], eval(s.values[i], scope), scope);
}

Value Evaluator::make_macro(const MacroBody& body, const Scope& scope) {
  if (!scope->is_kept) {
    scope->is_kept = true;
    kept_.push_back(scope);
  }
  return Value::holding(Kind::Macro, std::make_shared<Macro>(Macro{body.name, &body, scope}));
}

void Evaluator::run_call_block(const Stmt& s, const Scope& scope) {
  const Value caller = make_macro(*s.macro, scope);
  print(eval_call(*s.values[0], scope, &caller));
}

}  // namespace loft::jinja
