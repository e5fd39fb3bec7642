// text: the post-processor of tokenizer.json: which special tokens stand around the ids of a text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace loft {

/// Templates for a single sequence, one applied after the other. Const after load. Errors at load: Unsupported,
/// Corrupt.
class PostProcessor {
 public:
  static PostProcessor from_json(const Json& json, const std::string& where);  // null: nothing is added
  std::vector<int32_t> apply(std::vector<int32_t> ids) const;

 private:
  struct Part {
    bool is_text;              // here stand the ids of the text
    std::vector<int32_t> ids;  // else these
  };
  using Template = std::vector<Part>;
  static Template read_template(const Json& json, const std::string& where);
  static Part read_pair(const Json& json, const char* key, const std::string& where);
  std::vector<Template> templates_;
};

}  // namespace loft
