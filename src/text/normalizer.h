// text: the normalizer of tokenizer.json. What enters: valid UTF-8. What leaves: the text that is cut into pieces.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/regex.h"

namespace loft {

/// One step after the other. Const after load. Errors at load: Unsupported (type, by name), Corrupt.
class Normalizer {
 public:
  static Normalizer from_json(const Json& json, const std::string& where);  // null: nothing changes
  bool is_identity() const { return steps_.empty(); }
  std::string apply(std::string_view valid) const;

 private:
  enum class Kind { NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, ByteLevel };
  struct Step {
    Kind kind;
    Pattern pattern = Pattern::literal("");  // Replace
    std::string content{};                   // Replace, Prepend
    bool left = true, right = true;          // Strip
  };
  static void apply_step(const Step& step, std::string& text);
  std::vector<Step> steps_;
};

}  // namespace loft
