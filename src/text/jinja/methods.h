// text/jinja: the methods and attributes of values, and the global functions. One table each; a method that changes its
// object stands there without a function, because the sandbox refuses it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/evaluator.h"

namespace loft::jinja {

struct MethodRow {
  Kind kind;  // of the object
  const char* name;
  Value (*run)(Evaluator& ev, const Value& self, const Args& args);  // null: refused by the sandbox
};

struct FunctionRow {
  const char* name;
  Value (*run)(Evaluator& ev, const Args& args);
};

/// The methods of str, and those of all other types.
std::span<const MethodRow> text_methods();
std::span<const MethodRow> object_methods();

const MethodRow* find_method(const Value& object, std::string_view name);
bool is_method_name(std::string_view name);  // a method of some type has that name
const FunctionRow* find_function(std::string_view name);
/// Attributes that are no methods: those of loop, cycler, numbers, the groups that groupby makes.
std::optional<Value> find_property(const Value& object, const std::string& name);

}  // namespace loft::jinja
