// text: how the parts of tokenizer.json are read: {"type": NAME, ...} objects, with Sequence flattened to a list.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace loft {

/// Calls `add` for the component, or for each member of a Sequence in order; `list_key` names the list in a Sequence.
/// null gives no call. Errors: Corrupt (no object, no type, wrong list); Unsupported (more than 256 members in all).
void each_component(const Json& json, std::string_view list_key, const std::string& where,
                    const std::function<void(const Json&, const std::string& type, const std::string& where)>& add);

/// Unsupported, naming the place and the type that was found.
[[noreturn]] void refuse_type(std::string_view kind, const std::string& type, const std::string& where);

/// A member that must be a string of exactly one character.
char32_t take_char(const Json& json, std::string_view key, const std::string& where);

}  // namespace loft
