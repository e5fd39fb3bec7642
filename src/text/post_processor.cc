// text: post-processors, by the behaviour of `tokenizers`. Offsets are not kept here, so ByteLevel has nothing to do.
#include "text/post_processor.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/component.h"
#include "text/vocabulary.h"

namespace loft {
namespace {

constexpr size_t kMaxTemplateParts = 64;

int32_t read_id(const Json& json, const std::string& where) {
  if (!json.is_number_integer()) fail(Code::Corrupt, "{}: found {}, wanted an id", where, brief(json));
  const auto id =
      json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(INT64_MAX) ? int64_t(-1) : json.get<int64_t>();
  if (id < 0 || id >= Vocabulary::kMaxIds) fail(Code::Corrupt, "{}: found {}, wanted an id", where, brief(json));
  return int32_t(id);
}

}  // namespace

PostProcessor::Template PostProcessor::read_template(const Json& json, const std::string& where) {
  const Json* single = find_member(json, "single");
  if (!single || !single->is_array() || single->size() > kMaxTemplateParts) {
    fail(Code::Corrupt, "{}.single: found {}, wanted a short list", where, single ? brief(*single) : "nothing");
  }
  const Json* tokens = find_member(json, "special_tokens");
  Template result;
  for (size_t i = 0; i < single->size(); ++i) {
    const std::string place = fmt::format("{}.single[{}]", where, i);
    const Json& part = (*single)[i];
    if (const Json* sequence = find_member(part, "Sequence")) {
      const std::string id = take<std::string>(*sequence, "id", place + ".Sequence");
      if (id != "A") fail(Code::Corrupt, "{}.Sequence.id: found \"{}\", wanted \"A\"", place, id);
      result.push_back({true, {}});
      continue;
    }
    const Json* special = find_member(part, "SpecialToken");
    if (!special) fail(Code::Corrupt, "{}: found {}, wanted Sequence or SpecialToken", place, brief(part));
    const std::string id = take<std::string>(*special, "id", place + ".SpecialToken");
    const Json* token = tokens ? find_member(*tokens, id) : nullptr;
    const Json* ids = token ? find_member(*token, "ids") : nullptr;
    if (!ids || !ids->is_array()) fail(Code::Corrupt, "{}.special_tokens: no ids for \"{}\"", where, id);
    Part fixed{false, {}};
    for (const Json& one : *ids)
      fixed.ids.push_back(read_id(one, fmt::format("{}.special_tokens.\"{}\".ids", where, id)));
    result.push_back(std::move(fixed));
  }
  return result;
}

// ["piece", id], as BertProcessing and RobertaProcessing have it.
PostProcessor::Part PostProcessor::read_pair(const Json& json, const char* key, const std::string& where) {
  const Json* pair = find_member(json, key);
  if (!pair || !pair->is_array() || pair->size() != 2) {
    fail(Code::Corrupt, "{}.{}: found {}, wanted [piece, id]", where, key, pair ? brief(*pair) : "nothing");
  }
  return {false, {read_id((*pair)[1], fmt::format("{}.{}[1]", where, key))}};
}

PostProcessor PostProcessor::from_json(const Json& json, const std::string& where) {
  PostProcessor result;
  each_component(json, "processors", where, [&](const Json& part, const std::string& type, const std::string& place) {
    if (type == "ByteLevel") return;
    if (type == "TemplateProcessing") {
      result.templates_.push_back(read_template(part, place));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      result.templates_.push_back({read_pair(part, "cls", place), {true, {}}, read_pair(part, "sep", place)});
    } else {
      refuse_type("post_processor", type, place);
    }
  });
  // Each template could repeat the text, and a chain of them would grow without bound.
  if (result.templates_.size() > 8)
    fail(Code::Unsupported, "{}: {} templates in a row, at most 8", where, result.templates_.size());
  return result;
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
  for (const Template& parts : templates_) {
    std::vector<int32_t> next;
    for (const Part& part : parts) {
      const std::vector<int32_t>& source = part.is_text ? ids : part.ids;
      next.insert(next.end(), source.begin(), source.end());
    }
    ids = std::move(next);
  }
  return ids;
}

}  // namespace loft
