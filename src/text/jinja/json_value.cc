#include "text/jinja/json_value.h"

#include <nlohmann/json.hpp>

namespace loft::jinja {
namespace {

constexpr int kMaxJsonDepth = 80;

}  // namespace

Value value_of(const OrderedJson& json, int depth) {
  if (depth > kMaxJsonDepth) bad("JSON nested deeper than {} levels", kMaxJsonDepth);
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return Value::none();
    case OrderedJson::value_t::boolean:
      return Value::boolean_of(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value::integer_of(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned:
      return Value::integer_of(json.get<uint64_t>());
    case OrderedJson::value_t::number_float:
      return Value::real_of(json.get<double>());
    case OrderedJson::value_t::string:
      return Value::string(json.get_ref<const std::string&>());
    case OrderedJson::value_t::array: {
      Items items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(value_of(item, depth + 1));
      return Value::list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) dict.set(Value::string(key), value_of(value, depth + 1));
      return make_dict(std::move(dict));
    }
    default:
      bad("a JSON value of type {} cannot go into a template", json.type_name());
  }
}

}  // namespace loft::jinja
