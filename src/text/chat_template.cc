#include "text/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace loft {

using jinja::Dict;
using jinja::Value;
using jinja::value_of;

struct ChatTemplate::Compiled {
  std::string text;
  std::string where;
  std::unique_ptr<jinja::Tree> tree;
};

namespace {

constexpr size_t kMaxTemplateBytes = size_t(1) << 20;
constexpr size_t kMaxConfigBytes = size_t(64) << 20;  // tokenizer_config.json may list thousands of added tokens

// {"function": {"arguments": "{...}"}}: the text becomes the object that it spells. A text that spells none stays a
// text.
void parse_arguments(OrderedJson& call) {
  if (!call.is_object()) return;
  const auto function = call.find("function");
  OrderedJson& holder = function != call.end() && function->is_object() ? *function : call;
  const auto arguments = holder.find("arguments");
  if (arguments == holder.end() || !arguments->is_string()) return;
  const std::string& text = arguments->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *arguments = OrderedJson::object();
    return;
  }
  try {
    OrderedJson parsed = parse_ordered_json(text, "arguments", {.max_bytes = kMaxConfigBytes, .python_numbers = false});
    if (parsed.is_object()) *arguments = std::move(parsed);
  } catch (const Error&) {
    return;
  }
}

Value message_value(const OrderedJson& message) {
  if (!message.is_object()) fail(Code::BadRequest, "a message is {}, wanted an object", message.type_name());
  const OrderedJson* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto it = message.find(name);
    if (!reasoning && it != message.end() && !it->is_null()) reasoning = &*it;
  }
  Dict dict;
  if (reasoning) dict.set(Value::string("thinking"), value_of(*reasoning));
  for (const auto& [key, value] : message.items()) {
    if (value.is_null()) continue;
    if (key == "tool_calls" && value.is_array()) {
      OrderedJson calls = value;
      for (OrderedJson& call : calls) parse_arguments(call);
      dict.set(Value::string(key), value_of(calls));
    } else {
      dict.set(Value::string(key), value_of(value));
    }
  }
  if (reasoning) dict.set(Value::string("reasoning_content"), value_of(*reasoning));
  return jinja::make_dict(std::move(dict));
}

Value messages_value(const OrderedJson* messages) {
  if (!messages || messages->is_null()) return Value::list({});
  if (!messages->is_array()) fail(Code::BadRequest, "messages: found {}, wanted an array", messages->type_name());
  jinja::Items items;
  for (const OrderedJson& message : *messages) items.push_back(message_value(message));
  return Value::list(std::move(items));
}

Dict variables_of(const ChatTemplate::Input& input) {
  Dict variables;
  variables.set(Value::string("messages"), messages_value(input.messages));
  variables.set(Value::string("tools"), input.tools ? value_of(*input.tools) : Value::none());
  variables.set(Value::string("documents"), Value::none());
  variables.set(Value::string("add_generation_prompt"), Value::boolean_of(input.add_generation_prompt));
  if (!input.variables || input.variables->is_null()) return variables;
  if (!input.variables->is_object()) {
    fail(Code::BadRequest, "template variables: found {}, wanted an object", input.variables->type_name());
  }
  for (const auto& [key, value] : input.variables->items()) variables.set(Value::string(key), value_of(value));
  return variables;
}

struct Named {
  std::string name;
  std::string text;
  std::string where;
};

// chat_template of a JSON file: a text, or a list of {"name", "template"}.
std::vector<Named> templates_in(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return {};
  const Json config = read_json_file(path, {.max_bytes = kMaxConfigBytes});
  const Json* entry = find_member(config, "chat_template");
  if (!entry || entry->is_null()) return {};
  const std::string where = path.filename().string();
  if (entry->is_string()) return {{"default", entry->get<std::string>(), where}};
  if (!entry->is_array())
    fail(Code::Corrupt, "{}.chat_template: found {}, wanted a text or a list", where, brief(*entry));
  std::vector<Named> found;
  for (const Json& row : *entry) {
    const auto name = take<std::string>(row, "name", where + ".chat_template");
    found.push_back({name, take<std::string>(row, "template", where + ".chat_template"), where + "[" + name + "]"});
  }
  return found;
}

std::vector<Named> templates_of(const std::filesystem::path& folder) {
  std::vector<Named> found;
  const auto add_file = [&](const std::filesystem::path& path, const std::string& name, const std::string& where) {
    if (std::filesystem::is_regular_file(path)) found.push_back({name, read_text_file(path, kMaxTemplateBytes), where});
  };
  add_file(folder / "chat_template.jinja", "default", "chat_template.jinja");
  add_file(folder / "additional_chat_templates" / "tool_use.jinja", "tool_use",
           "additional_chat_templates/tool_use.jinja");
  if (!found.empty() && found[0].name == "default") return found;
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    for (Named& t : templates_in(folder / name)) found.push_back(std::move(t));
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_folder) {
  ChatTemplate result;
  for (const Named& t : templates_of(model_folder)) {
    if (t.name == "default") result.default_ = parse(t.text, t.where).default_;
    if (t.name == "tool_use") result.tool_use_ = parse(t.text, t.where).default_;
  }
  if (!result.default_) result.default_ = result.tool_use_;
  if (!result.default_) return std::nullopt;
  return result;
}

ChatTemplate ChatTemplate::parse(std::string_view text, std::string_view where) {
  if (text.size() > kMaxTemplateBytes) {
    fail(Code::Unsupported, "{}: a template of {} bytes, at most {} are read", where, text.size(), kMaxTemplateBytes);
  }
  if (const std::optional<size_t> bad = jinja::find_invalid_utf8(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(*bad), '\n');
    fail(Code::Corrupt, "{}:{}: the template is not UTF-8", where, line);
  }
  auto compiled = std::make_shared<Compiled>();
  compiled->text = text;
  compiled->where = where;
  compiled->tree = jinja::parse_template(compiled->text, compiled->where);
  ChatTemplate result;
  result.default_ = std::move(compiled);
  return result;
}

std::string ChatTemplate::render(const Input& input) const {
  const bool has_tools = input.tools && !input.tools->is_null();
  const Compiled& compiled = has_tools && tool_use_ ? *tool_use_ : *default_;
  const Dict variables = variables_of(input);
  jinja::Evaluator evaluator(*compiled.tree, variables, input.now_unix);
  try {
    return evaluator.run();
  } catch (const Error& e) {
    fail(e.code(), "{}:{}: {}", compiled.where, evaluator.line(), e.what());
  }
}

const std::string& ChatTemplate::source() const {
  return default_->text;
}

}  // namespace loft
