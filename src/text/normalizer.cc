// text: normalizer steps, by the behaviour of `tokenizers`.
#include "text/normalizer.h"

#include <nlohmann/json.hpp>

#include "text/byte_alphabet.h"
#include "text/component.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace loft {
namespace {

std::string strip(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!is_space(next_code_point(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t before = end;
    if (!is_space(previous_code_point(text, before))) break;
    end = before;
  }
  return std::string(text.substr(begin, end - begin));
}

std::string strip_accents(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (!(CharTable::get().bits(c) & kIsCombiningMark)) out.append(text.substr(begin, at - begin));
  }
  return out;
}

}  // namespace

Normalizer Normalizer::from_json(const Json& json, const std::string& where) {
  struct Name {
    std::string_view type;
    Kind kind;
  };
  constexpr Name kNames[] = {{"NFC", Kind::NFC},
                             {"NFD", Kind::NFD},
                             {"NFKC", Kind::NFKC},
                             {"NFKD", Kind::NFKD},
                             {"Lowercase", Kind::Lowercase},
                             {"Strip", Kind::Strip},
                             {"StripAccents", Kind::StripAccents},
                             {"Prepend", Kind::Prepend},
                             {"Replace", Kind::Replace},
                             {"ByteLevel", Kind::ByteLevel}};
  Normalizer result;
  each_component(json, "normalizers", where, [&](const Json& part, const std::string& type, const std::string& place) {
    for (const Name& name : kNames) {
      if (name.type != type) continue;
      Step step{.kind = name.kind};
      if (step.kind == Kind::Strip) {
        step.left = take_or<bool>(part, "strip_left", true, place);
        step.right = take_or<bool>(part, "strip_right", true, place);
      }
      if (step.kind == Kind::Prepend) step.content = take<std::string>(part, "prepend", place);
      if (step.kind == Kind::Replace) {
        const Json* pattern = find_member(part, "pattern");
        step.pattern = Pattern::from_json(pattern ? *pattern : Json(), place + ".pattern");
        step.content = take<std::string>(part, "content", place);
      }
      result.steps_.push_back(std::move(step));
      return;
    }
    refuse_type("normalizer", type, place);
  });
  return result;
}

void Normalizer::apply_step(const Step& step, std::string& text) {
  switch (step.kind) {
    case Kind::NFC:
      text = normalize(text, NormalForm::NFC);
      return;
    case Kind::NFD:
      text = normalize(text, NormalForm::NFD);
      return;
    case Kind::NFKC:
      text = normalize(text, NormalForm::NFKC);
      return;
    case Kind::NFKD:
      text = normalize(text, NormalForm::NFKD);
      return;
    case Kind::Lowercase:
      text = to_lower(text);
      return;
    case Kind::Strip:
      text = strip(text, step.left, step.right);
      return;
    case Kind::StripAccents:
      text = strip_accents(text);
      return;
    case Kind::Prepend:
      if (!text.empty()) text.insert(0, step.content);
      return;
    case Kind::Replace:
      text = step.pattern.replace(text, step.content);
      return;
    case Kind::ByteLevel:
      text = ByteAlphabet::get().encode(text);
      return;
  }
}

std::string Normalizer::apply(std::string_view valid) const {
  std::string text(valid);
  for (const Step& step : steps_) apply_step(step, text);
  return text;
}

}  // namespace loft
