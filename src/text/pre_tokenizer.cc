// text: pre-tokenizer steps, by the behaviour of `tokenizers`. A step either cuts words or rewrites their text.
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "text/byte_alphabet.h"
#include "text/component.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace loft {
namespace {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T, size_t N>
T choose(const Choice<T> (&choices)[N], const std::string& found, const std::string& where) {
  for (const Choice<T>& choice : choices) {
    if (choice.name == found) return choice.value;
  }
  std::string known;
  for (const Choice<T>& choice : choices) known += fmt::format("{}{}", known.empty() ? "" : ", ", choice.name);
  fail(Code::Unsupported, "{}: found \"{}\", known are {}", where, found, known);
}

// Ranges of characters that have one of `bits`, each its own match, and what lies between them.
void match_each(std::string_view word, unsigned bits, std::vector<MatchRange>& ranges) {
  const CharTable& table = CharTable::get();
  size_t done = 0;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    if (!(table.bits(next_code_point(word, at)) & bits)) continue;
    if (done < begin) ranges.push_back({done, begin, false});
    ranges.push_back({begin, at, true});
    done = at;
  }
  if (done < word.size()) ranges.push_back({done, word.size(), false});
}

// \w+|[^\w\s]+ : runs of word characters, runs of neither word characters nor spaces; spaces are no match.
void match_words(std::string_view word, std::vector<MatchRange>& ranges) {
  const auto kind_at = [&](size_t& at) {
    const unsigned bits = CharTable::get().bits(next_code_point(word, at));
    return (bits & kIsWord) ? 2 : (bits & kIsSpace) ? 0 : 1;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const int kind = kind_at(at);
    for (size_t next = at; next < word.size() && kind_at(next) == kind;) at = next;
    ranges.push_back({begin, at, kind != 0});
  }
}

}  // namespace

PreTokenizer::Step PreTokenizer::read_step(const Json& json, const std::string& type, const std::string& where) {
  constexpr Choice<Behavior> kBehaviors[] = {{"Removed", Behavior::Removed},
                                             {"Isolated", Behavior::Isolated},
                                             {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                             {"MergedWithNext", Behavior::MergedWithNext},
                                             {"Contiguous", Behavior::Contiguous}};
  constexpr Choice<Kind> kKinds[] = {{"ByteLevel", Kind::ByteLevel},
                                     {"Metaspace", Kind::Metaspace},
                                     {"Split", Kind::Split},
                                     {"Digits", Kind::Digits},
                                     {"Punctuation", Kind::Punctuation},
                                     {"Whitespace", Kind::Whitespace},
                                     {"WhitespaceSplit", Kind::WhitespaceSplit}};
  const Choice<Kind>* kind = nullptr;
  for (const Choice<Kind>& row : kKinds) kind = row.name == type ? &row : kind;
  if (!kind) {
    if (type != "CharDelimiterSplit") refuse_type("pre_tokenizer", type, where);
    std::string delimiter;
    append_utf8(delimiter, take_char(json, "delimiter", where));
    return {.kind = Kind::Split, .pattern = Pattern::literal(delimiter), .behavior = Behavior::Removed};
  }
  Step step{.kind = kind->value};
  const auto behavior = [&](const char* fallback) {
    return choose(kBehaviors, take_or<std::string>(json, "behavior", fallback, where), where + ".behavior");
  };
  switch (step.kind) {
    case Kind::ByteLevel:
      step.add_prefix_space = take_or<bool>(json, "add_prefix_space", true, where);
      step.use_regex = take_or<bool>(json, "use_regex", true, where);
      step.pattern = Pattern::regex(gpt2_scanner().pattern, where);
      break;
    case Kind::Metaspace:
      read_metaspace(step, json, where);
      break;
    case Kind::Split: {
      const Json* pattern = find_member(json, "pattern");
      step.pattern = Pattern::from_json(pattern ? *pattern : Json(), where + ".pattern");
      step.behavior = choose(kBehaviors, take<std::string>(json, "behavior", where), where + ".behavior");
      step.invert = take_or<bool>(json, "invert", false, where);
      break;
    }
    case Kind::Digits:
      step.behavior =
          take_or<bool>(json, "individual_digits", false, where) ? Behavior::Isolated : Behavior::Contiguous;
      break;
    case Kind::Punctuation:
      step.behavior = behavior("Isolated");
      break;
    case Kind::Whitespace:
    case Kind::WhitespaceSplit:
      step.behavior = Behavior::Removed;
      break;
  }
  return step;
}

void PreTokenizer::read_metaspace(Step& step, const Json& json, const std::string& where) {
  constexpr Choice<Prepend> kSchemes[] = {
      {"always", Prepend::Always}, {"first", Prepend::First}, {"never", Prepend::Never}};
  append_utf8(step.replacement, take_char(json, "replacement", where));
  step.prepend =
      choose(kSchemes, take_or<std::string>(json, "prepend_scheme", "always", where), where + ".prepend_scheme");
  if (!take_or<bool>(json, "add_prefix_space", true, where)) step.prepend = Prepend::Never;
  step.split = take_or<bool>(json, "split", true, where);
  step.pattern = Pattern::literal(step.replacement);
  step.behavior = Behavior::MergedWithNext;
}

PreTokenizer PreTokenizer::from_json(const Json& json, const std::string& where) {
  PreTokenizer result;
  each_component(json, "pretokenizers", where,
                 [&](const Json& part, const std::string& type, const std::string& place) {
                   result.steps_.push_back(read_step(part, type, place));
                 });
  return result;
}

void PreTokenizer::find_ranges(const Step& step, std::string_view word, std::vector<MatchRange>& ranges) {
  ranges.clear();
  switch (step.kind) {
    case Kind::Digits:
      return match_each(word, kIsNumeric, ranges);
    case Kind::Punctuation:
      return match_each(word, kIsPunctuation, ranges);
    case Kind::WhitespaceSplit:
      return match_each(word, kIsSpace, ranges);
    case Kind::Whitespace:
      match_words(word, ranges);
      for (MatchRange& range : ranges) range.is_match = !range.is_match;
      return;
    case Kind::ByteLevel:
    case Kind::Metaspace:
    case Kind::Split:
      step.pattern.split(word, ranges);
  }
  if (step.invert) {
    for (MatchRange& range : ranges) range.is_match = !range.is_match;
  }
}

void PreTokenizer::split_ranges(Words& words, const Step& step) {
  std::vector<Words::Range> result;
  std::vector<MatchRange> ranges;
  for (size_t i = 0; i < words.ranges.size(); ++i) {
    const size_t base = words.ranges[i].begin;
    find_ranges(step, words.word(i), ranges);
    const size_t first = result.size();
    const auto push = [&](const MatchRange& r) { result.push_back({base + r.begin, base + r.end}); };
    bool previous = false;
    if (step.behavior == Behavior::MergedWithNext) {
      for (size_t j = ranges.size(); j-- > 0;) {
        if (ranges[j].is_match && !previous && result.size() > first) {
          result.back().begin = base + ranges[j].begin;
        } else {
          push(ranges[j]);
        }
        previous = ranges[j].is_match;
      }
      std::reverse(result.begin() + ptrdiff_t(first), result.end());
    } else {
      for (const MatchRange& range : ranges) {
        const bool has_last = result.size() > first;
        if (step.behavior == Behavior::Removed) {
          if (!range.is_match) push(range);
        } else if (has_last && ((step.behavior == Behavior::MergedWithPrevious && range.is_match && !previous) ||
                                (step.behavior == Behavior::Contiguous && range.is_match == previous))) {
          result.back().end = base + range.end;
        } else {
          push(range);
        }
        previous = range.is_match;
      }
    }
    // An empty word is no word.
    result.erase(std::remove_if(result.begin() + ptrdiff_t(first), result.end(),
                                [](const Words::Range& r) { return r.begin == r.end; }),
                 result.end());
  }
  words.ranges = std::move(result);
}

void PreTokenizer::byte_level(Words& words, const Step& step) {
  if (step.add_prefix_space) {
    Words spaced;
    for (size_t i = 0; i < words.ranges.size(); ++i) {
      const size_t begin = spaced.text.size();
      if (!words.word(i).starts_with(' ')) spaced.text += ' ';
      spaced.text += words.word(i);
      spaced.ranges.push_back({begin, spaced.text.size()});
    }
    words = std::move(spaced);
  }
  if (step.use_regex) split_ranges(words, step);
  const ByteAlphabet& alphabet = ByteAlphabet::get();
  Words mapped;
  mapped.text.reserve(words.text.size() + words.text.size() / 2);
  mapped.ranges.reserve(words.ranges.size());
  for (size_t i = 0; i < words.ranges.size(); ++i) {
    const size_t begin = mapped.text.size();
    for (char c : words.word(i)) mapped.text += alphabet.text_of[static_cast<unsigned char>(c)];
    mapped.ranges.push_back({begin, mapped.text.size()});
  }
  words = std::move(mapped);
}

void PreTokenizer::metaspace(Words& words, const Step& step, bool at_start) {
  Words replaced;
  replaced.text.reserve(words.text.size() + words.text.size() / 2);
  for (size_t i = 0; i < words.ranges.size(); ++i) {
    const std::string_view word = words.word(i);
    const size_t begin = replaced.text.size();
    const bool is_first = at_start && i == 0 && words.ranges[0].begin == 0;
    const bool wanted = step.prepend == Prepend::Always || (step.prepend == Prepend::First && is_first);
    if (wanted && !word.starts_with(' ') && !word.starts_with(step.replacement)) replaced.text += step.replacement;
    for (char c : word) {
      if (c == ' ') {
        replaced.text += step.replacement;
      } else {
        replaced.text += c;
      }
    }
    replaced.ranges.push_back({begin, replaced.text.size()});
  }
  words = std::move(replaced);
  if (step.split) split_ranges(words, step);
}

Words PreTokenizer::apply(std::string text, bool at_start) const {
  Words words;
  words.text = std::move(text);
  if (!words.text.empty()) words.ranges.push_back({0, words.text.size()});
  for (const Step& step : steps_) {
    if (step.kind == Kind::ByteLevel) {
      byte_level(words, step);
    } else if (step.kind == Kind::Metaspace) {
      metaspace(words, step, at_start);
    } else {
      split_ranges(words, step);
    }
  }
  return words;
}

}  // namespace loft
