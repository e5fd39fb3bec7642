// text: chat templates. Enters: a model folder or a template text; then, for each request, messages, tools and
// variables as JSON. Leaves: the prompt, byte for byte as transformers renders it with jinja2. Encode it WITHOUT
// special tokens added.
//
// The form of Input: JSON goes in by pointer (null: absent), so that this header needs only the forward declaration of
// core/json.h; the caller keeps the JSON alive during render().
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace loft {

/// Const once made, and may be rendered by several threads at the same time. Cheap to copy.
class ChatTemplate {
 public:
  /// chat_template.jinja wins over the string, or list of named templates, in tokenizer_config.json, then comes
  /// chat_template.json; further names lie in additional_chat_templates/NAME.jinja. nullopt: the folder has none.
  /// Errors: as parse; Corrupt for files that are no JSON or hold no text there.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model_folder);

  /// `where` names the source in messages. Errors, each with "where:line": Corrupt for syntax errors, Unsupported for
  /// tags, filters, tests, functions and methods that loft does not have, and for more than 1 MiB of text.
  static ChatTemplate parse(std::string_view text, std::string_view where);

  struct Input {
    const OrderedJson* messages = nullptr;  // array of objects; null: an empty conversation
    const OrderedJson* tools = nullptr;     // array of function schemas; null: None
    bool add_generation_prompt = true;
    const OrderedJson* variables = nullptr;  // object: bos_token, eos_token, enable_thinking and any other
    std::optional<int64_t> now_unix = {};    // what strftime_now shows, in local time; absent: the clock
  };

  /// Null members of a message are dropped first; its reasoning is offered as reasoning_content and as thinking;
  /// tool-call arguments given as a string of JSON become an object. With tools, a template named tool_use is taken
  /// when there is one. Errors: BadRequest, with "where:line", for raise_exception, for what Python or jinja2 would
  /// refuse at run time, and beyond 10 million steps or 16 MiB of output.
  std::string render(const Input& input) const;

  /// The text of the template, for those who look for markers in it.
  const std::string& source() const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> default_;
  std::shared_ptr<const Compiled> tool_use_;
};

}  // namespace loft
