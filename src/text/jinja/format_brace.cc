// text/jinja: text.format(...).
#include <algorithm>

#include "text/jinja/format_spec.h"

namespace loft::jinja {
namespace {

// {name.attribute[key]!r:spec} one after the other.
class BraceFormat {
 public:
  BraceFormat(Budget& budget, const Args& args) : budget_(budget), args_(args) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) bad("Max string recursion exceeded");
    std::string out;
    for (size_t pos = 0; pos < format.size();) {
      const char c = format[pos++];
      const bool is_doubled = pos < format.size() && format[pos] == c;
      if (c != '{' && c != '}') {
        out += c;
      } else if (is_doubled) {
        out += c;
        ++pos;
      } else if (c == '}') {
        bad("Single '}}' encountered in format string");
      } else {
        out += field(format, pos, depth);
      }
      if (out.size() > kMaxTextBytes) bad("format: more than {} MiB", kMaxTextBytes >> 20);
    }
    budget_.spend_text(out.size());
    return out;
  }

 private:
  std::string field(std::string_view format, size_t& pos, int depth) {
    size_t end = pos;
    for (int open = 1; open > 0; ++end) {
      if (end == format.size()) bad("expected '}}' before end of string");
      if (format[end] == '{') ++open;
      if (format[end] == '}') --open;
    }
    std::string_view body = format.substr(pos, end - 1 - pos);
    pos = end;
    size_t name_end = 0;
    for (bool in_brackets = false; name_end < body.size(); ++name_end) {
      if (body[name_end] == '[') in_brackets = true;
      if (body[name_end] == ']') in_brackets = false;
      if (!in_brackets && (body[name_end] == '!' || body[name_end] == ':')) break;
    }
    Value v = lookup(body.substr(0, name_end));
    body.remove_prefix(name_end);
    if (body.starts_with('!')) {
      if (body.size() < 2 || (body.size() > 2 && body[2] != ':')) bad("expected ':' after conversion specifier");
      v = Value::string(converted(v, body[1]));
      body.remove_prefix(2);
    }
    if (body.starts_with(':')) body.remove_prefix(1);
    return format_value(budget_, v, run(body, depth + 1));
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, first_end));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      const bool is_attribute = name[0] == '.';
      const size_t end = is_attribute ? std::min(name.find_first_of(".[", 1), name.size()) : name.find(']');
      if (end == std::string_view::npos) bad("Missing ']' in format string");
      const std::string key(name.substr(1, end - 1));
      if (key.empty()) bad("Empty attribute in format string");
      const std::optional<Int> index = is_attribute ? std::nullopt : parse_index(key);
      v = is_attribute ? get_attribute(v, key) : get_item(v, index ? Value::integer_of(*index) : Value::string(key));
      name.remove_prefix(end + (is_attribute ? 0 : 1));
      if (!name.empty() && name[0] != '.' && name[0] != '[')
        bad("Only '.' or '[' may follow ']' in format field specifier");
    }
    return v;
  }

  static std::optional<Int> parse_index(std::string_view text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return parse_int(text, 10);
  }

  Value first(std::string_view name) {
    std::optional<Int> index = parse_index(name);
    if (name.empty()) {
      if (is_manual_) bad("cannot switch from manual field specification to automatic field numbering");
      is_automatic_ = true;
      index = Int(next_++);
    } else if (index) {
      if (is_automatic_) bad("cannot switch from automatic field numbering to manual field specification");
      is_manual_ = true;
    }
    if (index) {
      if (*index >= Int(args_.positional.size())) bad("Replacement index {} out of range", int_text(*index));
      return args_.positional[size_t(*index)];
    }
    for (const auto& [key, value] : args_.keywords) {
      if (key == name) return value;
    }
    bad("format lacks the argument '{}'", name);
  }

  Budget& budget_;
  const Args& args_;
  size_t next_ = 0;
  bool is_automatic_ = false;
  bool is_manual_ = false;
};

}  // namespace

std::string brace_format(Budget& budget, const std::string& format, const Args& args) {
  return BraceFormat(budget, args).run(format, 0);
}

}  // namespace loft::jinja
