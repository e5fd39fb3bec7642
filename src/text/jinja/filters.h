// text/jinja: the filters and tests, one table each. Every row of jinja2's own lists is here, except those that need
// randomness (random) or write HTML (urlize, xmlattr, striptags); those are unknown and so refused when a template is
// loaded.
#pragma once
#include <span>
#include <string_view>

#include "text/jinja/evaluator.h"

namespace loft::jinja {

struct FilterRow {
  const char* name;
  Value (*run)(Evaluator& ev, const Value& value, const Args& args);
};

struct TestRow {
  const char* name;
  bool (*run)(Evaluator& ev, const Value& value, const Args& args);
};

std::span<const FilterRow> text_filters();  // filters.cc puts these and its own into one list
std::span<const FilterRow> item_filters();

const FilterRow* find_filter(std::string_view name);
const TestRow* find_test(std::string_view name);

}  // namespace loft::jinja
