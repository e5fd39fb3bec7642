// text/jinja: json.dumps as the tojson filter of transformers calls it.
#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace loft::jinja {
namespace {

class Writer {
 public:
  Writer(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  std::string run(const Value& v) {
    write(v, 0);
    budget_.spend_text(out_.size());
    return std::move(out_);
  }

 private:
  void string(std::string_view text) {
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const size_t start = pos;
      const char32_t c = next_char(text, pos);
      constexpr std::string_view kPlain = "\"\\\n\r\t\f\b";
      constexpr std::string_view kLetters = "\"\\nrtfb";
      const size_t special = c < 0x80 ? kPlain.find(char(c)) : std::string_view::npos;
      if (special != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[special];
      } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
        out_ += fmt::format("\\u{:04x}", uint32_t(c));
      } else if (style_.ensure_ascii && c >= 0x10000) {
        const uint32_t rest = uint32_t(c) - 0x10000;
        out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
      } else {
        out_.append(text, start, pos - start);
      }
    }
    out_ += '"';
    check();
  }

  void check() const {
    if (out_.size() > kMaxTextBytes) bad("tojson: more than {} MiB", kMaxTextBytes >> 20);
  }

  static std::string real(double f) {
    if (std::isnan(f)) return "NaN";
    if (std::isinf(f)) return f < 0 ? "-Infinity" : "Infinity";
    return repr_of_real(f);
  }

  std::string key_text(const Value& key) {
    switch (key.kind) {
      case Kind::String:
        return key.text();
      case Kind::Bool:
        return key.boolean ? "true" : "false";
      case Kind::None:
        return "null";
      case Kind::Integer:
        return int_text(key.integer);
      case Kind::Float:
        return real(key.real);
      default:
        bad("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += *style_.indent;
    budget_.spend_text(style_.indent->size() * size_t(depth));
    check();
  }

  void items(const Items& items, int depth) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    new_line(depth);
    out_ += ']';
  }

  void dict(const Dict& dict, int depth) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& item : dict.items) order.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        bool unordered = false;
        return compare(a->first, b->first, "<", &unordered) < 0;
      });
    }
    out_ += '{';
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      string(key_text(order[i]->first));
      out_ += style_.key_separator;
      write(order[i]->second, depth + 1);
    }
    new_line(depth);
    out_ += '}';
  }

  void write(const Value& v, int depth) {
    budget_.spend(1);
    switch (v.kind) {
      case Kind::None:
        out_ += "null";
        return;
      case Kind::Bool:
        out_ += v.boolean ? "true" : "false";
        return;
      case Kind::Integer:
        out_ += int_text(v.integer);
        return;
      case Kind::Float:
        out_ += real(v.real);
        return;
      case Kind::String:
        string(v.text());
        return;
      case Kind::List:
      case Kind::Tuple:
        items(v.items(), depth);
        return;
      case Kind::Dict:
        dict(v.get<Dict>(), depth);
        return;
      default:
        bad("Object of type {} is not JSON serializable", type_name(v));
    }
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string json_text(Budget& budget, const Value& v, const JsonStyle& style) {
  return Writer(budget, style).run(v);
}

}  // namespace loft::jinja
