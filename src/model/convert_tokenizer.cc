// model: the tokenizer of a GGUF file in Hugging Face form. What enters: tokenizer.* metadata. What leaves:
// tokenizer.json, tokenizer_config.json, the chat template and generation_config.json. A GGUF file holds pieces and
// merges (or scores), but of the pre-tokenizer only its name: the table kPreTokenizers says what a name means.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/convert_steps.h"

namespace loft {
namespace {

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr size_t kMaxTokenizerJson = size_t(64) << 20;
constexpr size_t kMaxTemplate = size_t(1) << 20;
constexpr const char* kSpace = "\xe2\x96\x81";  // U+2581, SentencePiece's sign for a space

constexpr const char* kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What stands behind a value of tokenizer.ggml.pre.
struct PreTokenizerRow {
  const char* name;
  const char* regex;   // Split on it before ByteLevel; null: ByteLevel's own regex, that of GPT-2
  bool single_digits;  // Digits(individual) first
  bool nfc;            // normal form C first
  bool ignore_merges;  // a word that is a piece is taken whole
  bool adds_bos;       // when tokenizer.ggml.add_bos_token is absent
};
constexpr PreTokenizerRow kPreTokenizers[] = {
    {"gpt-2", nullptr, false, false, false, false},    {"default", nullptr, false, false, false, false},
    {"smollm", nullptr, true, false, false, false},    {"llama-bpe", kLlama3Regex, false, false, true, true},
    {"qwen2", kQwen2Regex, false, true, false, false},
};

// Control tokens that end a turn in known families, for files that do not name theirs as eot or eom.
constexpr const char* kTurnEnds[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>"};

/// The pieces, checked: every one is UTF-8, none stands twice.
struct Pieces {
  std::vector<std::string_view> text;
  std::vector<int64_t> type;
  std::unordered_map<std::string_view, int64_t> id;
};

// Bytes of the code point at `at`, 0 when it is not UTF-8 (too long forms, surrogates and cut ones included).
size_t code_point_bytes(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return at + i < s.size() ? uint8_t(s[at + i]) : uint8_t(0); };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first < 0xf0) {
    const bool bad = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0);
    return !bad && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    const bool bad = (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
    return !bad && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void expect_utf8(std::string_view s, const GgufFile& file, std::string_view what) {
  for (size_t at = 0; at < s.size();) {
    const size_t n = code_point_bytes(s, at);
    if (n == 0) fail(Code::Corrupt, "{}: {}: not UTF-8 at byte {}", file.where(), what, at);
    at += n;
  }
}

Pieces read_pieces(const GgufFile& file) {
  const auto* tokens = file.find_texts("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) fail(Code::Corrupt, "{}: tokenizer.ggml.tokens: missing or empty", file.where());
  Pieces p;
  p.text = *tokens;
  p.type = file.find_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>(p.text.size(), kNormal));
  if (p.type.size() != p.text.size()) {
    fail(Code::Corrupt, "{}: tokenizer.ggml.token_type: {} entries, wanted {}", file.where(), p.type.size(),
         p.text.size());
  }
  p.id.reserve(p.text.size());
  for (size_t i = 0; i < p.text.size(); ++i) {
    expect_utf8(p.text[i], file, fmt::format("tokenizer.ggml.tokens[{}]", i));
    const auto [it, is_new] = p.id.try_emplace(p.text[i], int64_t(i));
    if (!is_new) {
      fail(Code::Corrupt, "{}: tokenizer.ggml.tokens: entries {} and {} are equal", file.where(), it->second, i);
    }
  }
  return p;
}

// The id under `key`, -1 when absent. An id without a piece is a lie of the file.
int64_t find_id(const GgufFile& file, const Pieces& p, const char* key) {
  const auto id = file.find_int(key);
  if (!id) return -1;
  if (*id < 0 || *id >= int64_t(p.text.size())) {
    fail(Code::Corrupt, "{}: {}: {}, but there are {} tokens", file.where(), key, *id, p.text.size());
  }
  return *id;
}

SpecialIds read_ids(const GgufFile& file, const Pieces& p, ConvertReport& report) {
  SpecialIds ids;
  ids.bos = find_id(file, p, "tokenizer.ggml.bos_token_id");
  ids.eos = find_id(file, p, "tokenizer.ggml.eos_token_id");
  ids.unk = find_id(file, p, "tokenizer.ggml.unknown_token_id");
  ids.pad = find_id(file, p, "tokenizer.ggml.padding_token_id");
  const int64_t eot = find_id(file, p, "tokenizer.ggml.eot_token_id");
  const auto add = [&](int64_t id) {
    const bool is_new = id >= 0 && std::ranges::find(ids.stop, id) == ids.stop.end();
    if (is_new) ids.stop.push_back(id);
    return is_new;
  };
  add(ids.eos);
  add(eot);
  add(find_id(file, p, "tokenizer.ggml.eom_token_id"));
  if (eot >= 0) return ids;
  for (const char* name : kTurnEnds) {
    const auto it = p.id.find(name);
    if (it == p.id.end() || p.type[size_t(it->second)] != kControl) continue;
    if (add(it->second)) report.notes.push_back(fmt::format("{} (id {}) added to the stop tokens", name, it->second));
  }
  return ids;
}

OrderedJson added_token(const Pieces& p, size_t id) {
  OrderedJson t;
  t["content"] = std::string(p.text[id]);
  t["single_word"] = false;
  t["lstrip"] = false;
  t["rstrip"] = false;
  t["normalized"] = false;
  t["special"] = p.type[id] != kUserDefined;
  return t;
}

bool is_added(int64_t type) {
  return type == kControl || type == kUserDefined || type == kUnknown;
}

// ordered_json looks for a key by walking; with 262144 of them that is hours. The keys are known to be different here.
OrderedJson object_of(std::vector<std::pair<std::string, OrderedJson>>&& entries) {
  OrderedJson::object_t object;
  object.reserve(entries.size());
  for (auto& [key, value] : entries) object.emplace_back(std::move(key), std::move(value));
  return object;
}

OrderedJson vocabulary(const Pieces& p) {
  std::vector<std::pair<std::string, OrderedJson>> entries;
  for (size_t i = 0; i < p.text.size(); ++i) entries.emplace_back(p.text[i], i);
  return object_of(std::move(entries));
}

OrderedJson read_merges(const GgufFile& file, const Pieces& p) {
  const auto* merges = file.find_texts("tokenizer.ggml.merges");
  if (!merges) fail(Code::Corrupt, "{}: tokenizer.ggml.merges: missing", file.where());
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < merges->size(); ++i) {
    const std::string_view m = (*merges)[i];
    const size_t space = m.find(' ', 1);
    const std::string_view left = m.substr(0, space);
    const std::string_view right = space == m.npos ? std::string_view() : m.substr(space + 1);
    const std::string both = std::string(left).append(right);
    if (space == m.npos || !p.id.contains(left) || !p.id.contains(right) || !p.id.contains(both)) {
      fail(Code::Corrupt, "{}: tokenizer.ggml.merges[{}]: wanted two pieces that form a third", file.where(), i);
    }
    out.push_back({std::string(left), std::string(right)});
  }
  return out;
}

struct ScoredMerge {
  double score;
  uint32_t left_points;  // code points
  uint32_t right_points;
  std::string_view left;
  std::string_view right;
};

// SentencePiece merges the neighbours whose union scores highest. As a merge list: every split of every piece into two
// pieces, by score of the union. The order among equals is that of transformers' converter.
OrderedJson merges_from_scores(const GgufFile& file, const Pieces& p) {
  const auto scores = file.find_numbers("tokenizer.ggml.scores");
  if (!scores || scores->size() != p.text.size()) {
    fail(Code::Corrupt, "{}: tokenizer.ggml.scores: {} entries, wanted {}", file.where(), scores ? scores->size() : 0,
         p.text.size());
  }
  const auto merges_into = [&](std::string_view piece) {
    const auto it = p.id.find(piece);
    return it != p.id.end() && (p.type[size_t(it->second)] == kNormal || p.type[size_t(it->second)] == kUnused);
  };
  std::vector<ScoredMerge> merges;
  for (size_t i = 0; i < p.text.size(); ++i) {
    const std::string_view piece = p.text[i];
    const double score = (*scores)[i];
    if (p.type[i] != kNormal && p.type[i] != kUnused) continue;
    if (std::isnan(score)) fail(Code::Corrupt, "{}: tokenizer.ggml.scores[{}]: NaN", file.where(), i);
    if (piece.size() > 4096)
      fail(Code::Unsupported, "{}: tokenizer.ggml.tokens[{}]: {} bytes long", file.where(), i, piece.size());
    uint32_t points = 0;
    for (size_t at = 0; at < piece.size(); at += code_point_bytes(piece, at)) ++points;
    uint32_t left_points = 0;
    for (size_t at = 0; at < piece.size();) {
      at += code_point_bytes(piece, at);
      ++left_points;
      const std::string_view left = piece.substr(0, at);
      const std::string_view right = piece.substr(at);
      if (right.empty() || !merges_into(left) || !merges_into(right)) continue;
      merges.push_back({score, left_points, points - left_points, left, right});
    }
  }
  std::ranges::stable_sort(merges, std::greater(),
                           [](const ScoredMerge& m) { return std::tuple(m.score, m.left_points, m.right_points); });
  OrderedJson out = OrderedJson::array();
  for (const ScoredMerge& m : merges) out.push_back({std::string(m.left), std::string(m.right)});
  return out;
}

OrderedJson bpe_model(const Pieces& p, OrderedJson merges) {
  OrderedJson m;
  m["type"] = "BPE";
  m["dropout"] = nullptr;
  m["unk_token"] = nullptr;
  m["continuing_subword_prefix"] = nullptr;
  m["end_of_word_suffix"] = nullptr;
  m["fuse_unk"] = false;
  m["byte_fallback"] = false;
  m["ignore_merges"] = false;
  m["vocab"] = vocabulary(p);
  m["merges"] = std::move(merges);
  return m;
}

OrderedJson byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

OrderedJson replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// The parts of tokenizer.json that differ between families.
struct Family {
  OrderedJson normalizer;
  OrderedJson pre_tokenizer;
  OrderedJson decoder;
  OrderedJson model;
  bool adds_bos = false;  // unless the file says otherwise
};

Family byte_level_family(const GgufFile& file, const Pieces& p) {
  const std::string pre = file.find_text("tokenizer.ggml.pre").value_or("default");
  const PreTokenizerRow* row = nullptr;
  std::string known;
  for (const PreTokenizerRow& r : kPreTokenizers) {
    if (pre == r.name) row = &r;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", r.name);
  }
  if (!row) {
    fail(Code::Unsupported, "{}: tokenizer.ggml.pre \"{}\" is not known; these are: {}", file.where(), pre, known);
  }
  Family f;
  if (row->nfc) f.normalizer = {{"type", "NFC"}};
  OrderedJson steps = OrderedJson::array();
  if (row->single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (row->regex) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", row->regex}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(byte_level(row->regex == nullptr));
  if (steps.size() == 1) {
    f.pre_tokenizer = steps[0];
  } else {
    f.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", steps}};
  }
  f.decoder = byte_level(true);
  f.model = bpe_model(p, read_merges(file, p));
  f.model["ignore_merges"] = row->ignore_merges;
  f.adds_bos = row->adds_bos;
  return f;
}

Family sentence_piece_family(const GgufFile& file, const Pieces& p, const SpecialIds& ids) {
  Family f;
  const bool space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  f.normalizer = replace(" ", kSpace);
  OrderedJson decoders = {replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (space_prefix) {
    f.normalizer = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, f.normalizer}}};
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  f.decoder = {{"type", "Sequence"}, {"decoders", decoders}};
  f.model = bpe_model(p, merges_from_scores(file, p));
  if (ids.unk >= 0) f.model["unk_token"] = std::string(p.text[size_t(ids.unk)]);
  f.model["fuse_unk"] = true;
  f.model["byte_fallback"] = std::ranges::count(p.type, int64_t(kByte)) == 256;
  f.adds_bos = true;
  return f;
}

OrderedJson special_entry(const Pieces& p, int64_t id, int type_id) {
  return {{"SpecialToken", {{"id", std::string(p.text[size_t(id)])}, {"type_id", type_id}}}};
}

// TemplateProcessing that puts bos before and eos after each sequence; null when neither is wanted.
OrderedJson post_processor(const Pieces& p, int64_t bos, int64_t eos) {
  if (bos < 0 && eos < 0) return nullptr;
  OrderedJson single = OrderedJson::array();
  OrderedJson pair = OrderedJson::array();
  for (int i = 0; i < 2; ++i) {
    OrderedJson part = OrderedJson::array();
    if (bos >= 0) part.push_back(special_entry(p, bos, i));
    part.push_back({{"Sequence", {{"id", i == 0 ? "A" : "B"}, {"type_id", i}}}});
    if (eos >= 0) part.push_back(special_entry(p, eos, i));
    if (i == 0) single = part;
    for (const OrderedJson& entry : part) pair.push_back(entry);
  }
  OrderedJson specials = OrderedJson::object();
  for (const int64_t id : {bos, eos}) {
    if (id < 0) continue;
    const std::string text(p.text[size_t(id)]);
    specials[text] = {{"id", text}, {"ids", OrderedJson::array({id})}, {"tokens", OrderedJson::array({text})}};
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

struct Additions {
  bool bos = false;
  bool eos = false;
};

void write_tokenizer_json(const Pieces& p, Family family, const SpecialIds& ids, Additions adds,
                          const std::filesystem::path& path) {
  OrderedJson added = OrderedJson::array();
  for (size_t i = 0; i < p.text.size(); ++i) {
    if (!is_added(p.type[i])) continue;
    OrderedJson entry;
    entry["id"] = i;
    entry.update(added_token(p, i));
    added.push_back(std::move(entry));
  }
  OrderedJson t;
  t["version"] = "1.0";
  t["truncation"] = nullptr;
  t["padding"] = nullptr;
  t["added_tokens"] = std::move(added);
  t["normalizer"] = std::move(family.normalizer);
  t["pre_tokenizer"] = std::move(family.pre_tokenizer);
  t["post_processor"] = post_processor(p, adds.bos ? ids.bos : -1, adds.eos ? ids.eos : -1);
  t["decoder"] = std::move(family.decoder);
  t["model"] = std::move(family.model);
  write_text_file(path, dump_json(t));
}

std::optional<std::string> find_template(const GgufFile& file, const std::string& key) {
  auto text = file.find_text(key);
  if (!text) return text;
  if (text->size() > kMaxTemplate) {
    fail(Code::Unsupported, "{}: {}: {} bytes, at most {} are read", file.where(), key, text->size(), kMaxTemplate);
  }
  expect_utf8(*text, file, key);
  return text;
}

// The default template goes where transformers looks first; named ones into their own folder.
std::optional<std::string> write_templates(const GgufFile& file, const std::filesystem::path& folder,
                                           ConvertReport& report) {
  auto text = find_template(file, "tokenizer.chat_template");
  if (text) write_text_file(folder / "chat_template.jinja", *text);
  if (!text) report.notes.push_back("the file holds no chat template");
  const auto* names = file.find_texts("tokenizer.chat_templates");
  for (size_t i = 0; names && i < names->size(); ++i) {
    const std::string name((*names)[i]);
    const auto is_plain = [](char c) {
      return c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    };
    if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, is_plain)) {
      fail(Code::Corrupt, "{}: tokenizer.chat_templates[{}]: wanted a name of letters, digits, - and _", file.where(),
           i);
    }
    const auto named = find_template(file, "tokenizer.chat_template." + name);
    if (!named) continue;
    std::filesystem::create_directory(folder / "additional_chat_templates");
    write_text_file(folder / "additional_chat_templates" / (name + ".jinja"), *named);
  }
  return text;
}

void write_tokenizer_config(const GgufFile& file, const Pieces& p, const SpecialIds& ids, Additions adds,
                            const std::filesystem::path& folder, ConvertReport& report) {
  std::vector<std::pair<std::string, OrderedJson>> decoder;
  for (size_t i = 0; i < p.text.size(); ++i) {
    if (is_added(p.type[i])) decoder.emplace_back(std::to_string(i), added_token(p, i));
  }
  OrderedJson c;
  c["add_bos_token"] = adds.bos;
  c["add_eos_token"] = adds.eos;
  c["add_prefix_space"] = false;
  c["added_tokens_decoder"] = object_of(std::move(decoder));
  const std::pair<const char*, int64_t> tokens[] = {
      {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unk}, {"pad_token", ids.pad}};
  for (const auto& [key, id] : tokens) {
    if (id >= 0) c[key] = std::string(p.text[size_t(id)]);
  }
  if (const auto text = write_templates(file, folder, report)) c["chat_template"] = *text;
  c["clean_up_tokenization_spaces"] = false;
  const std::string arch = file.take_text("general.architecture");
  if (const auto context = file.find_int(arch + ".context_length")) c["model_max_length"] = *context;
  c["tokenizer_class"] = "PreTrainedTokenizerFast";
  write_text_file(folder / "tokenizer_config.json", dump_json(c, 2) + "\n");
}

void write_generation_config(const SpecialIds& ids, const std::filesystem::path& folder) {
  OrderedJson g;
  if (ids.bos >= 0) g["bos_token_id"] = ids.bos;
  if (!ids.stop.empty()) g["eos_token_id"] = ids.stop;
  if (ids.pad >= 0) g["pad_token_id"] = ids.pad;
  if (g.is_null()) g = OrderedJson::object();
  write_text_file(folder / "generation_config.json", dump_json(g, 2) + "\n");
}

}  // namespace

SpecialIds write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, ConvertReport& report) {
  const Pieces p = read_pieces(file);
  SpecialIds ids = read_ids(file, p, report);
  const std::string model = file.take_text("tokenizer.ggml.model");
  if (model != "gpt2" && model != "llama") {
    fail(Code::Unsupported, "{}: tokenizer.ggml.model \"{}\" cannot be converted; these can: gpt2, llama", file.where(),
         model);
  }
  Additions adds;
  const auto whole = file.find_text("tokenizer.huggingface.json");
  if (whole) {
    parse_json(*whole, file.where() + ": tokenizer.huggingface.json", {.max_bytes = kMaxTokenizerJson});
    write_text_file(folder / "tokenizer.json", *whole);
    report.notes.push_back("tokenizer.json is the file's own tokenizer.huggingface.json");
  }
  Family family;
  if (!whole) family = model == "gpt2" ? byte_level_family(file, p) : sentence_piece_family(file, p, ids);
  adds.bos = file.find_bool("tokenizer.ggml.add_bos_token").value_or(family.adds_bos);
  adds.eos = file.find_bool("tokenizer.ggml.add_eos_token").value_or(false);
  if ((adds.bos && ids.bos < 0) || (adds.eos && ids.eos < 0)) {
    fail(Code::Corrupt, "{}: tokenizer.ggml.add_bos_token or add_eos_token without the id of that token", file.where());
  }
  if (!whole) write_tokenizer_json(p, std::move(family), ids, adds, folder / "tokenizer.json");
  write_tokenizer_config(file, p, ids, adds, folder, report);
  write_generation_config(ids, folder);
  return ids;
}

}  // namespace loft
