#include "core/json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/error.h"
#include "core/file_map.h"

namespace loft {
namespace {

struct BareWord {
  std::string_view word;
  std::string_view replacement;
};
// What Python's json writes outside the standard. Longest first: "-Infinity" holds "Infinity".
constexpr BareWord kBareWords[] = {
    {"-Infinity", R"({"__float__":"-Infinity"})"},
    {"Infinity", R"({"__float__":"Infinity"})"},
    {"NaN", R"({"__float__":"NaN"})"},
};

// One pass over the raw text, before any allocation by the parser: depth limit, and Python's bare words made standard.
// Returns the rewritten text, or an empty string when nothing had to be rewritten.
std::string prescan(std::string_view text, std::string_view where, const JsonLimits& limits) {
  std::string rewritten;
  size_t copied = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') {
      if (++depth > limits.max_depth) fail(Code::Corrupt, "{}: nested deeper than {} levels", where, limits.max_depth);
    }
    if (c == ']' || c == '}') --depth;
    if (limits.python_numbers && (c == 'N' || c == 'I' || c == '-')) {
      for (const BareWord& bare : kBareWords) {
        if (text.substr(i).starts_with(bare.word)) {
          rewritten.append(text.substr(copied, i - copied)).append(bare.replacement);
          i += bare.word.size() - 1;
          copied = i + 1;
          break;
        }
      }
    }
  }
  if (copied > 0) rewritten.append(text.substr(copied));
  return rewritten;
}

// Stops at the first key that stands twice in its object. A pass of its own: the library's parser with a callback looks
// over all members again at each end of an object, which takes seconds for the headers of large checkpoints.
template <class J>
struct KeyWatch : nlohmann::json_sax<J> {
  std::vector<std::unordered_set<std::string>> keys;
  std::optional<std::string> duplicate;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename J::number_integer_t) override { return true; }
  bool number_unsigned(typename J::number_unsigned_t) override { return true; }
  bool number_float(typename J::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(typename J::binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(size_t) override { return keys.emplace_back(), true; }
  bool end_object() override { return keys.pop_back(), true; }
  bool key(std::string& name) override {
    if (keys.back().insert(name).second) return true;
    duplicate = name;
    return false;
  }
  // Malformed text is reported by the parse that follows.
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

template <class J>
J parse(std::string_view text, std::string_view where, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    fail(Code::Unsupported, "{}: {} bytes of JSON, at most {} are read", where, text.size(), limits.max_bytes);
  }
  const std::string rewritten = prescan(text, where, limits);
  const std::string_view source = rewritten.empty() ? text : std::string_view(rewritten);
  try {
    if (limits.unique_keys) {
      KeyWatch<J> watch;
      J::sax_parse(source, &watch);
      if (watch.duplicate) {
        fail(Code::Corrupt, "{}: the key \"{}\" stands twice in one object", where, *watch.duplicate);
      }
    }
    return J::parse(source);
  } catch (const nlohmann::json::exception& e) {
    fail(Code::Corrupt, "{}: not valid JSON: {}", where, e.what());
  }
}

const char* kind_of(const Json& value) {
  return value.is_number() ? (value.is_number_float() ? "a number" : "an integer") : value.type_name();
}

std::optional<double> as_double(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const Json* word = find_member(value, "__float__");
  if (!word || !word->is_string()) return std::nullopt;
  const std::string& text = word->get_ref<const std::string&>();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

template <class T>
struct Wanted;
template <>
struct Wanted<int64_t> {
  static constexpr const char* kName = "an integer";
  static std::optional<int64_t> read(const Json& v) {
    if (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    if (v.is_number_integer()) return v.get<int64_t>();
    if (v.is_number_float()) {  // 4096.0 is how some writers put an integer
      const double d = v.get<double>();
      if (std::floor(d) == d && std::fabs(d) < 9.0e15) return int64_t(d);
    }
    return std::nullopt;
  }
};
template <>
struct Wanted<double> {
  static constexpr const char* kName = "a number";
  static std::optional<double> read(const Json& v) { return as_double(v); }
};
template <>
struct Wanted<bool> {
  static constexpr const char* kName = "true or false";
  static std::optional<bool> read(const Json& v) {
    return v.is_boolean() ? std::optional(v.get<bool>()) : std::nullopt;
  }
};
template <>
struct Wanted<std::string> {
  static constexpr const char* kName = "a string";
  static std::optional<std::string> read(const Json& v) {
    return v.is_string() ? std::optional(v.get<std::string>()) : std::nullopt;
  }
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse<Json>(text, where, limits);
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse<OrderedJson>(text, where, limits);
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_text_file(path, limits.max_bytes), path.string(), limits);
}

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() ? nullptr : &*it;
}

template <class T>
std::optional<T> find(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_member(object, key);
  if (!value || value->is_null()) return std::nullopt;
  std::optional<T> read = Wanted<T>::read(*value);
  if (!read) {
    fail(Code::Corrupt, "{}.{}: found {} ({}), wanted {}", where, key, brief(*value), kind_of(*value),
         Wanted<T>::kName);
  }
  return read;
}

template <class T>
T take(const Json& object, std::string_view key, std::string_view where) {
  std::optional<T> value = find<T>(object, key, where);
  if (!value) fail(Code::Corrupt, "{}.{}: missing, wanted {}", where, key, Wanted<T>::kName);
  return *std::move(value);
}

#define LOFT_JSON_TYPE(T)                                                             \
  template std::optional<T> find<T>(const Json&, std::string_view, std::string_view); \
  template T take<T>(const Json&, std::string_view, std::string_view);
LOFT_JSON_TYPE(int64_t)
LOFT_JSON_TYPE(double)
LOFT_JSON_TYPE(bool)
LOFT_JSON_TYPE(std::string)
#undef LOFT_JSON_TYPE

std::string brief(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}
std::string dump_json(const OrderedJson& value, int indent) {
  return value.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace loft
