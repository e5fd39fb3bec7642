// text: the pre-tokenizer of tokenizer.json. What enters: normalized text between added tokens. What leaves: the words
// that the model merges on their own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/regex.h"

namespace loft {

/// Text and the words in it, in order.
struct Words {
  struct Range {
    size_t begin, end;
  };
  std::string text;
  std::vector<Range> ranges;
  std::string_view word(size_t i) const {
    return std::string_view(text).substr(ranges[i].begin, ranges[i].end - ranges[i].begin);
  }
};

/// One step after the other, each on every word so far. Const after load. Errors at load: Unsupported, Corrupt.
class PreTokenizer {
 public:
  static PreTokenizer from_json(const Json& json, const std::string& where);  // null: the text is one word
  /// at_start: `text` stands at the very start of the input (for Metaspace with prepend_scheme "first").
  Words apply(std::string text, bool at_start) const;

 private:
  enum class Kind { ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit };
  enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
  enum class Prepend { Always, First, Never };
  struct Step {
    Kind kind;
    Pattern pattern = Pattern::literal("");  // Split
    Behavior behavior = Behavior::Isolated;
    bool invert = false;                // Split: the pattern matches words, not what stands between them
    bool add_prefix_space = false;      // ByteLevel
    bool use_regex = true;              // ByteLevel
    bool split = true;                  // Metaspace
    Prepend prepend = Prepend::Always;  // Metaspace
    std::string replacement{};          // Metaspace
  };
  static Step read_step(const Json& json, const std::string& type, const std::string& where);
  static void read_metaspace(Step& step, const Json& json, const std::string& where);
  static void split_ranges(Words& words, const Step& step);
  static void find_ranges(const Step& step, std::string_view word, std::vector<MatchRange>& ranges);
  static void byte_level(Words& words, const Step& step);
  static void metaspace(Words& words, const Step& step, bool at_start);
  std::vector<Step> steps_;
};

}  // namespace loft
