// text: reading the component objects of tokenizer.json.
#include "text/component.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/utf8.h"

namespace loft {
namespace {

constexpr int kMaxComponents = 256;

using Add = std::function<void(const Json&, const std::string&, const std::string&)>;

struct Walk {
  std::string_view list_key;
  const Add& add;
  int n_seen = 0;

  // Depth is bounded by the depth limit of the JSON parser.
  void visit(const Json& json, const std::string& where) {
    if (json.is_null()) return;
    if (!json.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object with a type", where, brief(json));
    if (++n_seen > kMaxComponents) fail(Code::Unsupported, "{}: more than {} components", where, kMaxComponents);
    const std::string type = take<std::string>(json, "type", where);
    if (type != "Sequence") return add(json, type, where);
    const Json* list = find_member(json, list_key);
    if (!list || !list->is_array()) {
      fail(Code::Corrupt, "{}.{}: found {}, wanted a list", where, list_key, list ? brief(*list) : "nothing");
    }
    for (size_t i = 0; i < list->size(); ++i) visit((*list)[i], fmt::format("{}.{}[{}]", where, list_key, i));
  }
};

}  // namespace

void each_component(const Json& json, std::string_view list_key, const std::string& where, const Add& add) {
  Walk walk{list_key, add};
  walk.visit(json, where);
}

void refuse_type(std::string_view kind, const std::string& type, const std::string& where) {
  fail(Code::Unsupported, "{}.type: the {} \"{}\" is not supported", where, kind, type);
}

char32_t take_char(const Json& json, std::string_view key, const std::string& where) {
  const std::string text = take<std::string>(json, key, where);
  const std::u32string characters = to_code_points(text);
  if (characters.size() != 1) fail(Code::Corrupt, "{}.{}: found \"{}\", wanted one character", where, key, text);
  return characters[0];
}

}  // namespace loft
