#include "text/jinja/scope.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace loft::jinja {
namespace {

using Ident = std::pair<int, std::string>;  // level and name: one variable of the function that owns the level

struct Load {
  enum How { Parameter, Undefined, Alias, Resolve } how = Undefined;
  Ident outer;  // Alias
};

// The names that one scope refers to or assigns.
struct Symbols {
  int level = 0;
  const Symbols* parent = nullptr;
  std::map<std::string, Ident> refs;
  std::map<Ident, Load> loads;
  std::set<std::string> stores;

  const Ident* find_ref(const std::string& name) const {
    const auto it = refs.find(name);
    if (it != refs.end()) return &it->second;
    return parent ? parent->find_ref(name) : nullptr;
  }
  void define(const std::string& name, Load load) {
    const Ident ident{level, name};
    refs[name] = ident;
    loads[ident] = std::move(load);
  }
  void declare_parameter(const std::string& name) {
    stores.insert(name);
    define(name, {Load::Parameter, {}});
  }
  void load(const std::string& name) {
    if (!find_ref(name)) define(name, {Load::Resolve, {}});
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (refs.count(name)) return;
    const Ident* outer = parent ? parent->find_ref(name) : nullptr;
    define(name, outer ? Load{Load::Alias, *outer} : Load{Load::Undefined, {}});
  }
  // A name assigned in some branches only keeps its outer value in the others.
  void merge_branches(const std::vector<Symbols>& branches) {
    std::set<std::string> fresh;
    for (const Symbols& branch : branches) fresh.insert(branch.stores.begin(), branch.stores.end());
    for (const std::string& name : stores) fresh.erase(name);
    for (const Symbols& branch : branches) {
      for (const auto& [name, ident] : branch.refs) refs[name] = ident;
      for (const auto& [ident, how] : branch.loads) loads[ident] = how;
      stores.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const std::string& name : fresh) {
      const Ident target = *find_ref(name);
      const Ident* outer = parent ? parent->find_ref(name) : nullptr;
      loads[target] = outer ? Load{Load::Alias, *outer} : Load{Load::Resolve, {}};
    }
  }
};

struct Unit {  // a function under way: its slots, and the function around it
  Function* function = nullptr;
  Unit* outer = nullptr;
  std::map<Ident, int> slots;

  int slot_of(const Ident& ident) {
    const auto [it, is_new] = slots.emplace(ident, function->n_slots);
    if (is_new) ++function->n_slots;
    return it->second;
  }
};

template <class Visit>
void each_name(const Expr* e, const Visit& visit) {
  if (!e) return;
  if (e->kind == ExprKind::Name || e->kind == ExprKind::NamespaceRef) visit(e);
  for (const Expr* item : e->items) each_name(item, visit);
  for (const Expr* arg : e->args.positional) each_name(arg, visit);
  for (const Keyword& k : e->args.keywords) each_name(k.value, visit);
  each_name(e->args.star, visit);
  each_name(e->args.star_star, visit);
}

void load_names(Symbols& symbols, const Expr* e) {
  each_name(e, [&](const Expr* name) { symbols.load(name->name); });
}

void store_names(Symbols& symbols, const Expr* target, bool as_parameter) {
  each_name(target, [&](const Expr* name) {
    if (name->kind == ExprKind::NamespaceRef) {
      symbols.load(name->name);
    } else if (as_parameter) {
      symbols.declare_parameter(name->name);
    } else {
      symbols.store(name->name);
    }
  });
}

void visit_body(Symbols& symbols, const Body& body);

void visit_branches(Symbols& symbols, const std::vector<Branch>& branches) {
  load_names(symbols, branches[0].test);
  const Symbols before = symbols;
  std::vector<Symbols> ends(3, before);  // the body, all elifs in a row, the else
  visit_body(ends[0], branches[0].body);
  for (size_t i = 1; i < branches.size(); ++i) {
    if (!branches[i].test) {
      visit_body(ends[2], branches[i].body);
      continue;
    }
    load_names(ends[1], branches[i].test);
    std::vector<Symbols> inner(1, ends[1]);
    visit_body(inner[0], branches[i].body);
    ends[1].merge_branches(inner);
  }
  symbols.merge_branches(ends);
}

// Which names a statement uses or assigns in the scope it stands in; the scopes that it opens are looked at later.
void visit_stmt(Symbols& symbols, const Stmt& s) {
  switch (s.kind) {
    case StmtKind::Output:
      for (const OutputPart& part : s.parts) load_names(symbols, part.expr);
      return;
    case StmtKind::If:
      visit_branches(symbols, s.branches);
      return;
    case StmtKind::Set:
      load_names(symbols, s.values[0]);
      store_names(symbols, s.targets[0], false);
      return;
    case StmtKind::SetBlock:
      store_names(symbols, s.targets[0], false);
      return;
    case StmtKind::Macro:
      symbols.store(s.macro->name);
      return;
    case StmtKind::For:
    case StmtKind::CallBlock:
    case StmtKind::FilterBlock:
    case StmtKind::With:
      for (const Expr* value : s.values) load_names(symbols, value);
      return;
    case StmtKind::Scope:
    case StmtKind::Break:
    case StmtKind::Continue:
      return;
  }
}

void visit_body(Symbols& symbols, const Body& body) {
  for (const Stmt* s : body) visit_stmt(symbols, *s);
}

// Whether a body reads `name` before anything in it assigns that name, in the order of the text.
class UndeclaredSearch {
 public:
  static bool finds(const Body& body, const std::string& name) {
    UndeclaredSearch search(name);
    search.walk(body);
    return search.found_;
  }

 private:
  explicit UndeclaredSearch(const std::string& name) : name_(name) {}

  void read(const Expr* e) {
    each_name(e, [&](const Expr* n) {
      if (n->kind == ExprKind::Name && n->name == name_ && !declared_) found_ = true;
    });
  }
  void assign(const Expr* e) {
    each_name(e, [&](const Expr* n) {
      if (n->kind == ExprKind::Name && n->name == name_) declared_ = true;
    });
  }
  void walk(const Body& body) {
    for (const Stmt* s : body) walk(*s);
  }
  void walk(const Stmt& s) {
    for (const OutputPart& part : s.parts) read(part.expr);
    for (const Expr* target : s.targets) assign(target);
    for (const Expr* value : s.values) read(value);
    for (const Branch& branch : s.branches) {
      read(branch.test);
      walk(branch.body);
    }
    walk(s.body);
    walk(s.else_body);
    read(s.test);
    if (!s.macro) return;
    for (const Parameter& p : s.macro->parameters) {
      if (p.name == name_) declared_ = true;
    }
    for (const Parameter& p : s.macro->parameters) read(p.default_value);
    walk(s.macro->body);
  }

  const std::string& name_;
  bool declared_ = false;
  bool found_ = false;
};

class Resolver {
 public:
  void run(Tree& tree) {
    Unit root{&tree.function, nullptr, {}};
    Symbols symbols;
    visit_body(symbols, tree.body);
    tree.entry = entry_of(symbols, root);
    compile(tree.body, symbols, root);
  }

 private:
  static VarRef find(const Ident& ident, Unit& unit) {
    int up = 0;
    for (Unit* u = &unit; u; u = u->outer, ++up) {
      const auto it = u->slots.find(ident);
      if (it != u->slots.end()) return {up, it->second};
    }
    return {0, unit.slot_of(ident)};
  }

  static ScopeEntry entry_of(const Symbols& symbols, Unit& unit) {
    ScopeEntry entry;
    for (const auto& [ident, load] : symbols.loads) {
      const int slot = unit.slot_of(ident);
      if (load.how == Load::Parameter) continue;
      SlotInit init{.action = SlotInit::Undefined, .slot = slot, .source = {}, .name = ""};
      if (load.how == Load::Alias) {
        init.action = SlotInit::Alias;
        init.source = find(load.outer, unit);
      } else if (load.how == Load::Resolve) {
        init.action = SlotInit::Resolve;
        init.name = ident.second;
      }
      entry.push_back(std::move(init));
    }
    return entry;
  }

  static void bind(Expr* e, const Symbols& symbols, Unit& unit) {
    each_name(e, [&](const Expr* name) {
      if (const Ident* ident = symbols.find_ref(name->name)) const_cast<Expr*>(name)->ref = find(*ident, unit);
    });
  }

  static Target target_of(const Expr* e, const Symbols& symbols, Unit& unit) {
    Target target;
    if (e->kind == ExprKind::Tuple) {
      target.kind = Target::Tuple;
      for (const Expr* item : e->items) target.items.push_back(target_of(item, symbols, unit));
      return target;
    }
    target.kind = e->kind == ExprKind::NamespaceRef ? Target::Attribute : Target::Name;
    target.attribute = e->attribute;
    target.ref = find(*symbols.find_ref(e->name), unit);
    return target;
  }

  static Symbols inner(const Symbols& parent) {
    Symbols symbols;
    symbols.level = parent.level + 1;
    symbols.parent = &parent;
    return symbols;
  }

  void compile(const Body& body, const Symbols& symbols, Unit& unit) {
    for (Stmt* s : body) compile(*s, symbols, unit);
  }

  void compile(Stmt& s, const Symbols& symbols, Unit& unit) {
    switch (s.kind) {
      case StmtKind::Output:
        for (const OutputPart& part : s.parts) bind(const_cast<Expr*>(part.expr), symbols, unit);
        return;
      case StmtKind::If:
        for (Branch& branch : s.branches) {
          bind(branch.test, symbols, unit);
          compile(branch.body, symbols, unit);
        }
        return;
      case StmtKind::For:
        compile_for(s, symbols, unit);
        return;
      case StmtKind::Set:
        bind(s.values[0], symbols, unit);
        s.compiled_targets.push_back(target_of(s.targets[0], symbols, unit));
        return;
      case StmtKind::Macro:
        compile_macro(*s.macro, symbols, unit);
        s.macro_ref = find(*symbols.find_ref(s.macro->name), unit);
        return;
      case StmtKind::CallBlock:
        bind(s.values[0], symbols, unit);
        compile_macro(*s.macro, symbols, unit);
        return;
      case StmtKind::SetBlock:
      case StmtKind::FilterBlock:
      case StmtKind::With:
      case StmtKind::Scope:
        compile_scope(s, symbols, unit);
        return;
      case StmtKind::Break:
      case StmtKind::Continue:
        return;
    }
  }

  void compile_scope(Stmt& s, const Symbols& outer, Unit& unit) {
    Symbols symbols = inner(outer);
    if (s.kind == StmtKind::With) {
      for (const Expr* target : s.targets) store_names(symbols, target, true);
    } else if (s.kind != StmtKind::Scope) {
      for (const Expr* filter : s.values) load_names(symbols, filter);
    }
    visit_body(symbols, s.body);
    s.entry = entry_of(symbols, unit);
    for (Expr* value : s.values) bind(value, s.kind == StmtKind::With ? outer : symbols, unit);
    for (const Expr* target : s.targets) {
      s.compiled_targets.push_back(target_of(target, s.kind == StmtKind::With ? symbols : outer, unit));
    }
    compile(s.body, symbols, unit);
  }

  void compile_for(Stmt& s, const Symbols& outer, Unit& unit) {
    bind(s.values[0], outer, unit);
    if (s.test) {
      Symbols test = inner(outer);
      store_names(test, s.targets[0], true);
      load_names(test, s.test);
      Unit condition{&s.test_function, &unit, {}};
      s.test_entry = entry_of(test, condition);
      s.test_target = target_of(s.targets[0], test, condition);
      bind(s.test, test, condition);
    }
    Unit own{&s.function, &unit, {}};
    Unit& body_unit = s.recursive ? own : unit;
    Symbols symbols = inner(outer);
    symbols.declare_parameter("loop");
    store_names(symbols, s.targets[0], true);
    visit_body(symbols, s.body);
    s.entry = entry_of(symbols, body_unit);
    s.loop_slot = body_unit.slot_of(*symbols.find_ref("loop"));
    s.compiled_targets.push_back(target_of(s.targets[0], symbols, body_unit));
    compile(s.body, symbols, body_unit);
    Symbols other = inner(outer);
    visit_body(other, s.else_body);
    s.else_entry = entry_of(other, body_unit);
    compile(s.else_body, other, body_unit);
  }

  void compile_macro(MacroBody& macro, const Symbols& outer, Unit& outer_unit) {
    Unit unit{&macro.function, &outer_unit, {}};
    Symbols symbols = inner(outer);
    for (const Parameter& p : macro.parameters) {
      symbols.declare_parameter(p.name);
      if (p.name == "caller") macro.has_caller_parameter = true;
    }
    const auto has_parameter = [&](const std::string& name) {
      return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                         [&](const Parameter& p) { return p.name == name; });
    };
    const auto special = [&](const std::string& name, int& slot) {
      if (has_parameter(name) || !UndeclaredSearch::finds(macro.body, name)) return;
      symbols.declare_parameter(name);
      slot = unit.slot_of(*symbols.find_ref(name));
    };
    special("caller", macro.caller_slot);
    special("kwargs", macro.kwargs_slot);
    special("varargs", macro.varargs_slot);
    for (const Parameter& p : macro.parameters) load_names(symbols, p.default_value);
    visit_body(symbols, macro.body);
    macro.entry = entry_of(symbols, unit);
    for (Parameter& p : macro.parameters) {
      bind(p.default_value, symbols, unit);
      p.slot = unit.slot_of(*symbols.find_ref(p.name));
    }
    compile(macro.body, symbols, unit);
  }
};

}  // namespace

void resolve_scopes(Tree& tree) {
  Resolver().run(tree);
}

}  // namespace loft::jinja
