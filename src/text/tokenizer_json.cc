// text: the reader. It listens to the parser's events; a list of merges as JSON values would take ten times the memory.
#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace loft {
namespace {

constexpr size_t kMaxBytes = size_t(64) << 20;
constexpr size_t kMaxDepth = 64;

class Reader {
 public:
  Reader(const std::string& where, TokenizerJson& result, Json& rest) : where_(where), result_(result), rest_(rest) {}

  bool null() { return value(Json()); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(int64_t v) { return in_vocab_ ? add_id(v) : value(v); }
  bool number_unsigned(uint64_t v) {
    return in_vocab_ ? add_id(v > uint64_t(INT64_MAX) ? INT64_MAX : int64_t(v)) : value(v);
  }
  bool number_float(double v, const std::string&) { return value(v); }
  bool binary(Json::binary_t&) { return value(Json()); }
  bool string(std::string& v) {
    if (!in_merges_) return value(std::move(v));
    if (in_pair_) {
      result_.merges.add(v);
      ++n_pair_;
    } else {
      add_joined(v);
    }
    return true;
  }
  bool key(std::string& v) {
    if (in_vocab_) {
      piece_ = std::move(v);
    } else {
      keys_.back() = std::move(v);
    }
    return true;
  }
  bool start_object(size_t) {
    if (is_model_member("vocab")) {
      result_.has_vocab = in_vocab_ = true;
      result_.pieces.clear();
      result_.ids.clear();
      return true;
    }
    return open(Json::object());
  }
  bool end_object() {
    if (in_vocab_) {
      in_vocab_ = false;
      return true;
    }
    return close();
  }
  bool start_array(size_t) {
    if (in_merges_ && !in_pair_) {
      in_pair_ = true;
      n_pair_ = 0;
      return true;
    }
    if (is_model_member("merges")) {
      result_.has_merges = in_merges_ = true;
      result_.merges.clear();
      n_merges_ = 0;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() {
    if (in_pair_) {
      if (n_pair_ != 2) wrong_merge(fmt::format("a list of {}", n_pair_));
      in_pair_ = false;
      ++n_merges_;
      return true;
    }
    if (in_merges_) {
      in_merges_ = false;
      return true;
    }
    return close();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) {
    fail(Code::Corrupt, "{}: not valid JSON: {}", where_, e.what());
  }

 private:
  // The next value is a member of that name of the top-level object "model".
  bool is_model_member(std::string_view name) const {
    return !in_vocab_ && !in_merges_ && open_.size() == 2 && open_[1]->is_object() && keys_[0] == "model" &&
           keys_[1] == name;
  }
  [[noreturn]] void wrong_merge(const std::string& found) const {
    fail(Code::Corrupt, "{}: model.merges[{}]: found {}, wanted \"a b\" or [\"a\", \"b\"]", where_, n_merges_, found);
  }
  [[noreturn]] void wrong_id(const std::string& found) const {
    fail(Code::Corrupt, "{}: model.vocab.\"{}\": found {}, wanted an id", where_, piece_, found);
  }
  bool add_id(int64_t id) {
    result_.pieces.add(piece_);
    result_.ids.push_back(id);
    return true;
  }
  void add_joined(std::string_view text) {
    if (text.starts_with("#version")) return;
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      wrong_merge(fmt::format("\"{}\"", text));
    }
    result_.merges.add(text.substr(0, space));
    result_.merges.add(text.substr(space + 1));
    ++n_merges_;
  }
  Json* put(Json&& v) {
    if (open_.empty()) return &(rest_ = std::move(v));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[keys_.back()] = std::move(v));
    parent.push_back(std::move(v));
    return &parent.back();
  }
  bool value(Json v) {
    if (in_vocab_) wrong_id(brief(v));
    if (in_merges_) wrong_merge(brief(v));
    put(std::move(v));
    return true;
  }
  bool open(Json&& empty) {
    if (in_vocab_) wrong_id(empty.is_array() ? "a list" : "an object");
    if (in_merges_) wrong_merge(empty.is_array() ? "a list in a list" : "an object");
    if (open_.size() >= kMaxDepth) fail(Code::Corrupt, "{}: nested deeper than {} levels", where_, kMaxDepth);
    open_.push_back(put(std::move(empty)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const std::string& where_;
  TokenizerJson& result_;
  Json& rest_;
  std::vector<Json*> open_;        // containers around the next value; a parent is not touched while a child is open
  std::vector<std::string> keys_;  // the member that is read in each of them
  bool in_vocab_ = false, in_merges_ = false, in_pair_ = false;
  size_t n_pair_ = 0, n_merges_ = 0;
  std::string piece_;
};

}  // namespace

void FlatStrings::add(std::string_view text) {
  bytes_.append(text);
  ends_.push_back(bytes_.size());
}

void FlatStrings::clear() {
  bytes_.clear();
  ends_.assign(1, 0);
}

TokenizerJson read_tokenizer_json(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes) {
    fail(Code::Unsupported, "{}: {} bytes of JSON, at most {} are read", where, text.size(), kMaxBytes);
  }
  TokenizerJson result;
  auto rest = std::make_shared<Json>();
  Reader reader(where, result, *rest);
  Json::sax_parse(text, &reader);
  result.rest = std::move(rest);
  return result;
}

}  // namespace loft
