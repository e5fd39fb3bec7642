#include "measure/corpus.h"

#include "core/error.h"
#include "core/file_map.h"
#include "core/sha256.h"
#include "text/utf8.h"

namespace loft {
namespace {

constexpr size_t kMaxCorpusBytes = size_t(1) << 30;

}  // namespace

Corpus read_corpus(const std::filesystem::path& path, const Tokenizer& tokenizer, bool add_special_tokens) {
  const std::string text = read_text_file(path, kMaxCorpusBytes);
  const size_t valid = valid_utf8_length(text);
  if (valid < text.size()) {
    fail(Code::Corrupt, "{}: found a byte that is no UTF-8 at offset {}, wanted UTF-8", path.string(), valid);
  }
  return {.ids = tokenizer.encode(text, add_special_tokens), .sha256 = sha256_hex(text)};
}

std::optional<int32_t> begin_token(const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = tokenizer.encode("", true);
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

}  // namespace loft
