// core: the door to nlohmann-json. Its exceptions stop in json.cc and become Error; all limits of untrusted JSON are
// here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = size_t(8) << 20;
  int max_depth = 64;
  bool python_numbers =
      true;                  // checkpoint files: NaN, Infinity, {"__float__": ..}, integers beyond 64 bits (as double)
  bool unique_keys = false;  // refuse an object that names a key twice
};

/// Parses text; `where` names it in messages. Errors: Corrupt (malformed, too deep, not UTF-8, duplicate keys when
/// asked), Unsupported (larger than max_bytes). Integers beyond 64 bits become doubles when python_numbers is set.
Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
OrderedJson parse_ordered_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

/// Reads the member `key` of an object as T: int64_t, double, bool, std::string. `where` is file and path so far, for
/// the message "where.key: found ..., wanted ...". find: nullopt when the key is absent or null; take: Corrupt when
/// absent.
template <class T>
std::optional<T> find(const Json& object, std::string_view key, std::string_view where);
template <class T>
T take(const Json& object, std::string_view key, std::string_view where);
template <class T>
T take_or(const Json& object, std::string_view key, T fallback, std::string_view where) {
  return find<T>(object, key, where).value_or(fallback);
}

/// The member `key`, or null when the object lacks it (or is no object). Never throws.
const Json* find_member(const Json& object, std::string_view key);

/// One line of at most 80 characters that shows a value in an error message.
std::string brief(const Json& value);

/// Compact text; invalid UTF-8 is replaced, never thrown on. indent < 0: one line.
std::string dump_json(const Json& value, int indent = -1);
std::string dump_json(const OrderedJson& value, int indent = -1);

}  // namespace loft
