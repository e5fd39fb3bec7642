// text: the public face of the tokenizer: added tokens, normalizer, pre-tokenizer, model, post-processor, in this
// order.
#include "text/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace loft {
namespace {

const Json& member_or_null(const Json& json, std::string_view key) {
  static const Json null;
  const Json* value = find_member(json, key);
  return value ? *value : null;
}

// A special token is named by a string or by an object with its content.
std::string token_name(const Json& json, std::string_view key, const std::string& where) {
  const Json* value = find_member(json, key);
  if (!value || value->is_null()) return "";
  if (value->is_object()) return take<std::string>(*value, "content", fmt::format("{}.{}", where, key));
  return take<std::string>(json, key, where);
}

}  // namespace

struct Tokenizer::Data {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::string bos, eos, unk, pad;
};

std::shared_ptr<Tokenizer::Data> Tokenizer::parse(std::string_view tokenizer_json, std::string_view where) {
  const std::string place(where);
  const TokenizerJson file = read_tokenizer_json(tokenizer_json, place);
  const Json& json = *file.rest;
  if (!json.is_object()) fail(Code::Corrupt, "{}: found {}, wanted an object", where, brief(json));
  auto data = std::make_shared<Data>();
  data->normalizer = Normalizer::from_json(member_or_null(json, "normalizer"), place + ": normalizer");
  data->pre_tokenizer = PreTokenizer::from_json(member_or_null(json, "pre_tokenizer"), place + ": pre_tokenizer");
  data->post_processor = PostProcessor::from_json(member_or_null(json, "post_processor"), place + ": post_processor");
  data->decoder = TokenDecoder::from_json(member_or_null(json, "decoder"), place + ": decoder");
  data->model = Bpe::from_json(file, place + ": model");
  data->added = AddedTokens::from_json(member_or_null(json, "added_tokens"), place + ": added_tokens",
                                       data->model.vocabulary(), data->normalizer);
  return data;
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view where) {
  return Tokenizer(parse(tokenizer_json, where));
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "tokenizer.json";
  const FileMap file = FileMap::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const std::shared_ptr<Data> data = parse(text, path.string());
  // tokenizer_config.json wins over the older special_tokens_map.json.
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const std::filesystem::path config_path = model_folder / name;
    if (!std::filesystem::exists(config_path)) continue;
    const Json config = read_json_file(config_path);
    const auto read = [&](const char* key, std::string& target) {
      std::string found = token_name(config, key, config_path.string());
      if (!found.empty()) target = std::move(found);
    };
    read("bos_token", data->bos);
    read("eos_token", data->eos);
    read("unk_token", data->unk);
    read("pad_token", data->pad);
  }
  return Tokenizer(data);
}

// Text between added tokens that are searched as they are: normalized, then searched for the others.
void Tokenizer::encode_text(std::string text, bool at_start, std::vector<int32_t>& ids) const {
  if (!data_->normalizer.is_identity()) text = data_->normalizer.apply(text);
  const std::vector<AddedTokens::Section> sections = data_->added.split(text, true);
  for (const AddedTokens::Section& section : sections) {
    if (section.id >= 0) {
      ids.push_back(section.id);
      continue;
    }
    const bool whole = sections.size() == 1;
    const Words words =
        data_->pre_tokenizer.apply(whole ? std::move(text) : text.substr(section.begin, section.end - section.begin),
                                   at_start && section.begin == 0);
    for (size_t i = 0; i < words.ranges.size(); ++i) data_->model.encode(words.word(i), ids);
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string replaced;
  if (!is_valid_utf8(text)) {
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  std::vector<int32_t> ids;
  for (const AddedTokens::Section& section : data_->added.split(text, false)) {
    if (section.id >= 0) {
      ids.push_back(section.id);
    } else {
      encode_text(std::string(text.substr(section.begin, section.end - section.begin)), section.begin == 0, ids);
    }
  }
  return add_special_tokens ? data_->post_processor.apply(std::move(ids)) : ids;
}

std::optional<std::string_view> Tokenizer::piece_view(int32_t id) const {
  if (const AddedToken* token = data_->added.find(id)) return token->content;
  return data_->model.vocabulary().piece(id);
}

std::optional<std::string_view> Tokenizer::decoder_input(int32_t id, bool skip_special_tokens) const {
  if (skip_special_tokens && is_special(id)) return std::nullopt;
  if (const AddedToken* token = data_->added.find(id)) return token->text;
  return data_->model.vocabulary().piece(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  TokenDecoder::Stream stream(data_->decoder);
  for (int32_t id : ids) {
    if (const auto piece = decoder_input(id, skip_special_tokens)) stream.push(*piece, out);
  }
  stream.finish(out);
  return out;
}

int32_t Tokenizer::vocab_size() const {
  return std::max(data_->model.vocabulary().size(), data_->added.end_id());
}

std::optional<int32_t> Tokenizer::token_id(std::string_view piece) const {
  if (const std::optional<int32_t> id = data_->added.id(piece)) return id;
  return data_->model.vocabulary().id(piece);
}

std::optional<std::string> Tokenizer::piece(int32_t id) const {
  const std::optional<std::string_view> view = piece_view(id);
  return view ? std::optional(std::string(*view)) : std::nullopt;
}

bool Tokenizer::is_special(int32_t id) const {
  const std::optional<std::string_view> piece = piece_view(id);
  return piece && data_->added.is_special(*piece);
}

std::optional<int32_t> Tokenizer::bos_id() const {
  return data_->bos.empty() ? std::nullopt : token_id(data_->bos);
}
std::optional<int32_t> Tokenizer::eos_id() const {
  return data_->eos.empty() ? std::nullopt : token_id(data_->eos);
}
const std::string& Tokenizer::bos_token() const {
  return data_->bos;
}
const std::string& Tokenizer::eos_token() const {
  return data_->eos;
}
const std::string& Tokenizer::unk_token() const {
  return data_->unk;
}
const std::string& Tokenizer::pad_token() const {
  return data_->pad;
}
const TokenDecoder& Tokenizer::decoder() const {
  return data_->decoder;
}

}  // namespace loft
