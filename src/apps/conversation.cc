// apps: messages and their prompt.
#include "apps/conversation.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine/prompt.h"

namespace loft {

struct Conversation::State {
  const Tokenizer& tokenizer;
  ChatTemplate chat_template;
  OrderedJson variables = OrderedJson::object();
  OrderedJson messages = OrderedJson::array();
  std::string system = {};
};

namespace {

ChatTemplate load_template(const std::filesystem::path& folder) {
  std::optional<ChatTemplate> found = ChatTemplate::load(folder);
  if (!found)
    fail(Code::Unsupported, "{}: the model has no chat template; --raw completes text without one", folder.string());
  return *found;
}

}  // namespace

Conversation::Conversation(const std::filesystem::path& model_folder, const Tokenizer& tokenizer,
                           const Options& options)
    : state_(new State{tokenizer, load_template(model_folder)}) {
  for (const std::string& text : options.template_var) set_template_variable(text, state_->variables);
  set_system(options.system.value_or(""));
}

Conversation::~Conversation() = default;

void Conversation::set_system(const std::string& text) {
  state_->system = text;
  clear();
}

void Conversation::clear() {
  state_->messages = OrderedJson::array();
  if (!state_->system.empty()) add("system", state_->system);
}

void Conversation::add(std::string_view role, const std::string& content) {
  state_->messages.push_back({{"role", role}, {"content", content}});
}

void Conversation::drop_last() {
  state_->messages.erase(state_->messages.size() - 1);
}

size_t Conversation::n_messages() const {
  return state_->messages.size();
}

std::vector<int32_t> Conversation::prompt() const {
  const std::string text = render_chat(state_->chat_template, state_->tokenizer,
                                       {.messages = &state_->messages, .variables = &state_->variables});
  return encode_prompt(state_->tokenizer, text, PromptKind::Templated);
}

std::string Conversation::to_json() const {
  const OrderedJson out = {{"messages", state_->messages}};
  return dump_json(out, 1) + "\n";
}

void set_template_variable(std::string_view text, OrderedJson& variables) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail(Code::BadRequest, "--template-var: found '{}', wanted NAME=VALUE", text);
  }
  const std::string name(text.substr(0, equals));
  const std::string_view value = text.substr(equals + 1);
  double number = 0;
  const bool is_word = value == "true" || value == "false" || value == "null";
  const bool is_structure = !value.empty() && std::string_view("[{\"").find(value[0]) != std::string_view::npos;
  if (is_word || is_structure || AnyReal::parse(value, number)) {
    variables[name] = parse_ordered_json(value, "--template-var " + name);
  } else {
    variables[name] = std::string(value);
  }
}

}  // namespace loft
