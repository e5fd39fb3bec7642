// Renders templates for tests/python/template_compare.py. Reads one JSON object a line from stdin: {"id", "template",
// "messages", "tools", "add_generation_prompt", "variables", "now"}; writes {"id", "text"} or {"id", "error", "code"}.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "text/chat_template.h"

namespace {

const loft::OrderedJson* member(const loft::OrderedJson& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string render(const loft::OrderedJson& request, std::map<std::string, loft::ChatTemplate>& known) {
  const std::string text = request.at("template");
  auto it = known.find(text);
  if (it == known.end()) it = known.emplace(text, loft::ChatTemplate::parse(text, "t")).first;
  loft::ChatTemplate::Input input;
  input.messages = member(request, "messages");
  input.tools = member(request, "tools");
  input.add_generation_prompt = request.value("add_generation_prompt", false);
  input.variables = member(request, "variables");
  if (const loft::OrderedJson* now = member(request, "now")) input.now_unix = now->get<int64_t>();
  return it->second.render(input);
}

}  // namespace

int main() {
  std::map<std::string, loft::ChatTemplate> known;
  for (std::string line; std::getline(std::cin, line);) {
    const loft::OrderedJson request =
        loft::parse_ordered_json(line, "stdin", {.max_bytes = size_t(64) << 20, .max_depth = 200});
    loft::OrderedJson reply{{"id", request.at("id")}};
    try {
      reply["text"] = render(request, known);
    } catch (const loft::Error& e) {
      reply["error"] = e.what();
      reply["code"] = loft::code_name(e.code());
    }
    std::cout << loft::dump_json(reply) << '\n';
  }
  return 0;
}
