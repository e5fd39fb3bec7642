// text/jinja: the values that a template computes with. They follow Python: None, bool, int (128 bits), float, str
// (UTF-8, counted in code points), list, tuple, dict in insertion order, and the few objects that jinja2 offers. A
// value is cheap to copy and immutable, save for namespaces, iterators, cyclers, joiners and loops. Nothing here knows
// the evaluator.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"

namespace loft::jinja {

using Int = __int128;

enum class Kind : uint8_t {
  Missing,  // a variable without a value; never seen by a template
  Undefined,
  None,
  Bool,
  Integer,
  Float,
  String,
  List,
  Tuple,
  Dict,
  DictView,  // what keys(), values(), items() of a dict give
  Range,
  Iterator,  // can be walked once: what map, select, unique and their like give
  Namespace,
  Macro,
  Function,  // a global such as range
  Method,    // a method with its object
  Loop,
  Joiner,
  Cycler
};

// Containers nest no deeper than this, so that no walk over a value and no destructor can run out of stack.
constexpr int kMaxValueDepth = 100;

struct Value;
using Items = std::vector<Value>;

struct Str {
  std::string text;
  size_t n_chars = 0;   // code points
  bool markup = false;  // passed through `safe` or `escape`: `+` escapes what is added to it
  bool is_ascii() const { return n_chars == text.size(); }
};

struct Value {
  Kind kind = Kind::None;
  union {
    bool boolean;
    double real;
    Int integer = 0;
  };
  std::shared_ptr<const void> object;

  static Value missing() { return of(Kind::Missing); }
  static Value none() { return of(Kind::None); }
  static Value boolean_of(bool b);
  static Value integer_of(Int i);
  static Value real_of(double f);
  static Value string(std::string text, bool markup = false);
  static Value undefined(std::string message);
  static Value list(Items items) { return sequence(Kind::List, std::move(items)); }
  static Value tuple(Items items) { return sequence(Kind::Tuple, std::move(items)); }
  static Value iterator(Items items);

  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind == Kind::Bool || kind == Kind::Integer || kind == Kind::Float; }
  bool is_integral() const { return kind == Kind::Bool || kind == Kind::Integer; }
  bool is_undefined() const { return kind == Kind::Undefined; }
  bool is_missing() const { return kind == Kind::Missing; }
  bool is_string() const { return kind == Kind::String; }
  Int as_int() const { return kind == Kind::Bool ? Int(boolean) : integer; }        // of an integral value
  double as_real() const { return kind == Kind::Float ? real : double(as_int()); }  // of a number

  template <class T>
  const T& get() const {
    return *static_cast<const T*>(object.get());
  }
  template <class T>
  T& get_mutable() const {  // namespaces, iterators, cyclers, joiners, loops
    return *static_cast<T*>(const_cast<void*>(object.get()));
  }
  const std::string& text() const { return get<Str>().text; }
  const Items& items() const;  // of a list or tuple

  template <class T>
  static Value holding(Kind kind, std::shared_ptr<T> object) {
    Value v = of(kind);
    v.object = std::move(object);
    return v;
  }

 private:
  static Value of(Kind kind) {
    Value v;
    v.kind = kind;
    return v;
  }
  static Value sequence(Kind kind, Items items);
};

/// How deep containers nest in a value (0 for a scalar), and how large it is written out as a tree: one for each value
/// and one for each 32 bytes of text. Kept in every container, so that no walk over shared parts can take exponential
/// time.
struct Extent {
  int depth = 0;
  int64_t weight = 1;
};
constexpr int64_t kMaxWeight = 5'000'000;

struct Sequence {
  Items items;
  Extent extent;
};

struct Walk {  // Kind::Iterator
  Items items;
  size_t next = 0;
  Extent extent;
};

/// Insertion order as in Python; a key that comes twice keeps its first place and takes the last value.
class Dict {
 public:
  std::vector<std::pair<Value, Value>> items;
  Extent extent;

  void set(const Value& key, Value value);  // Errors: BadRequest for an unhashable key
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

 private:
  std::unordered_multimap<uint64_t, uint32_t> index_;  // used from kIndexFrom items on
};

Value make_dict(Dict dict);

struct DictView {
  enum Which { Keys, Values, Items } which = Keys;
  Value dict;
};

struct RangeValue {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
  Int size() const;
  Int at(Int i) const { return start + i * step; }
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
};

struct Undefined {
  std::string message;
};

struct JoinerState {
  Value separator;
  bool used = false;
};

struct CyclerState {
  Items items;
  size_t next = 0;
  Extent extent;
};

Extent extent_of(const Value& v);
/// The extent of a container of these. Errors: BadRequest beyond kMaxValueDepth or kMaxWeight.
Extent extent_around(const Items& items);

bool truthy(const Value& v);
bool equal(const Value& a, const Value& b);
/// Python's ordering: negative, 0, positive; `op` is for the message. Errors: BadRequest for types without an order.
/// Sets *unordered for a NaN.
int compare(const Value& a, const Value& b, const char* op, bool* unordered);
uint64_t hash_of(const Value& v);  // Errors: BadRequest for lists, dicts and iterators
bool is_hashable(const Value& v);
const char* type_name(const Value& v);  // as Python names the type: "str", "dict", "NoneType"

/// str() and repr() of Python. Errors: BadRequest where Python would print an address, which no two runs share.
std::string to_text(const Value& v);
std::string to_repr(const Value& v);
void append_repr(std::string& out, const Value& v, int depth = 0);
std::string repr_of_string(std::string_view text);
std::string repr_of_real(double f);
std::string int_text(Int i);

/// A value that Python would refuse with TypeError, ValueError and so on.
template <class... Args>
[[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) {
  fail(Code::BadRequest, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace loft::jinja
