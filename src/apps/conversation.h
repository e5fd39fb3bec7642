// apps: a conversation as messages, and its prompt by the model's chat template.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/options.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace loft {

/// Messages of one conversation. Errors of loading: Unsupported when the model has no chat template.
class Conversation {
 public:
  Conversation(const std::filesystem::path& model_folder, const Tokenizer& tokenizer, const Options& options);
  ~Conversation();

  void set_system(const std::string& text);  // empty: none; clears the conversation
  void clear();                              // all but the system message
  void add(std::string_view role, const std::string& content);
  void drop_last();
  size_t n_messages() const;
  /// Prompt ids for the next answer. Errors: those of the template.
  std::vector<int32_t> prompt() const;
  /// {"messages": [...]} for a file.
  std::string to_json() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "NAME=VALUE" of --template-var: true, false, null, numbers, and JSON that begins with [ { or a quote are read as
/// such, all else is text. The value is set in `variables`. Errors: BadRequest without "=", Corrupt for malformed JSON.
void set_template_variable(std::string_view text, OrderedJson& variables);

}  // namespace loft
