// text: decoder steps, by the behaviour of `tokenizers`, each able to take its tokens in chunks.
#include "text/token_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "text/byte_alphabet.h"
#include "text/component.h"

namespace loft {
namespace {

// The byte of a piece such as <0xE2>. Rust reads the two digits, so a sign before the second one counts as well.
std::optional<char> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int value = 0;
  for (size_t i = piece[3] == '+' ? 4 : 3; i < 5; ++i) {
    const char c = piece[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

// Length of the longest end of `text` that is a start of `wanted` but not all of it.
size_t partial_match(std::string_view text, std::string_view wanted) {
  for (size_t n = std::min(text.size(), wanted.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == wanted.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

TokenDecoder TokenDecoder::from_json(const Json& json, const std::string& where) {
  struct Name {
    std::string_view type;
    Kind kind;
  };
  constexpr Name kNames[] = {{"ByteLevel", Kind::ByteLevel}, {"ByteFallback", Kind::ByteFallback},
                             {"Fuse", Kind::Fuse},           {"Metaspace", Kind::Metaspace},
                             {"Replace", Kind::Replace},     {"Strip", Kind::Strip},
                             {"BPEDecoder", Kind::Bpe}};
  TokenDecoder result;
  result.joins_with_space_ = json.is_null();
  const auto count = [](const Json& part, const char* key, const std::string& place) {
    const int64_t n = take_or<int64_t>(part, key, 0, place);
    if (n < 0 || n > 1 << 20) fail(Code::Corrupt, "{}.{}: found {}, wanted a small count", place, key, n);
    return size_t(n);
  };
  each_component(json, "decoders", where, [&](const Json& part, const std::string& type, const std::string& place) {
    const Name* name = nullptr;
    for (const Name& row : kNames) name = row.type == type ? &row : name;
    if (!name) refuse_type("decoder", type, place);
    Step step{.kind = name->kind};
    switch (step.kind) {
      case Kind::Replace: {
        const Json* pattern = find_member(part, "pattern");
        step.pattern = Pattern::from_json(pattern ? *pattern : Json(), place + ".pattern");
        step.content = take<std::string>(part, "content", place);
        break;
      }
      case Kind::Strip:
        append_utf8(step.content, take_char(part, "content", place));
        step.start = count(part, "start", place);
        step.stop = count(part, "stop", place);
        break;
      case Kind::Metaspace:
        append_utf8(step.content, take_char(part, "replacement", place));
        step.drop_first = take_or<std::string>(part, "prepend_scheme", "always", place) != "never" &&
                          take_or<bool>(part, "add_prefix_space", true, place);
        break;
      case Kind::Bpe:
        step.content = take_or<std::string>(part, "suffix", "</w>", place);
        break;
      case Kind::ByteLevel:
      case Kind::ByteFallback:
      case Kind::Fuse:
        break;
    }
    result.steps_.push_back(std::move(step));
  });
  return result;
}

// Behind the last step: tokens one after the other; without a decoder, with a space between.
void TokenDecoder::join(Stream& stream, std::string_view chunk, bool ends, std::string& out) const {
  Stream::State& state = stream.states_.back();
  if (!state.in_token && state.n_tokens++ > 0 && joins_with_space_) out += ' ';
  state.in_token = !ends;
  out += chunk;
}

void TokenDecoder::feed(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const {
  if (i == steps_.size()) return join(stream, chunk, ends, out);
  const Step& step = steps_[i];
  Stream::State& state = stream.states_[i];
  switch (step.kind) {
    case Kind::Fuse:
      if (!chunk.empty()) feed(stream, i + 1, chunk, false, out);
      return;
    case Kind::Metaspace:
      return feed_metaspace(stream, i, chunk, ends, out);
    case Kind::Strip:
      return feed_strip(stream, i, chunk, ends, out);
    case Kind::Replace:
      state.held += chunk;
      return feed_replace(stream, i, ends, out);
    case Kind::ByteLevel: {
      state.held += chunk;
      if (!ends) return;
      std::string text;
      state.replacer.push(ByteAlphabet::get().decode(state.held).value_or(state.held), text);
      state.held.clear();
      if (!text.empty()) feed(stream, i + 1, text, false, out);
      return;
    }
    case Kind::ByteFallback:
      state.held += chunk;
      return feed_byte_fallback(stream, i, ends, out);
    case Kind::Bpe: {
      state.held += chunk;
      if (!ends) return;
      // The last token differs, so each one waits for the next.
      std::string token = std::move(state.held);
      state.held.clear();
      if (state.n_tokens++ > 0)
        feed(stream, i + 1, Pattern::literal(step.content).replace(stream.states_[i].waiting, " "), true, out);
      stream.states_[i].waiting = std::move(token);
      return;
    }
  }
}

// A run of byte pieces is text when all of it is valid, else one U+FFFD for each byte; so it waits for the end of the
// run.
void TokenDecoder::feed_byte_fallback(Stream& stream, size_t i, bool ends, std::string& out) const {
  if (!ends) return;
  Stream::State& state = stream.states_[i];
  const std::string token = std::move(state.held);
  state.held.clear();
  if (const std::optional<char> byte = fallback_byte(token)) {
    state.waiting += *byte;
    return;
  }
  flush_bytes(stream, i, out);
  feed(stream, i + 1, token, true, out);
}

void TokenDecoder::flush_bytes(Stream& stream, size_t i, std::string& out) const {
  const std::string bytes = std::move(stream.states_[i].waiting);
  stream.states_[i].waiting.clear();
  if (bytes.empty()) return;
  if (is_valid_utf8(bytes)) return feed(stream, i + 1, bytes, true, out);
  for (size_t n = 0; n < bytes.size(); ++n) feed(stream, i + 1, "\xEF\xBF\xBD", true, out);
}

void TokenDecoder::feed_metaspace(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const {
  Stream::State& state = stream.states_[i];
  const Step& step = steps_[i];
  const bool drops = state.n_tokens == 0 && step.drop_first;
  feed(stream, i + 1, Pattern::literal(step.content).replace(chunk, drops ? "" : " "), ends, out);
  if (ends) ++state.n_tokens;
}

void TokenDecoder::feed_replace(Stream& stream, size_t i, bool ends, std::string& out) const {
  Stream::State& state = stream.states_[i];
  const Step& step = steps_[i];
  if (ends || (step.pattern.is_literal() && step.pattern.text().empty())) {
    const std::string whole = std::move(state.held);
    state.held.clear();
    return feed(stream, i + 1, step.pattern.replace(whole, step.content), ends, out);
  }
  if (!step.pattern.is_literal()) return;
  // Up to the last match nothing can change any more, and behind it only a start of the pattern may still grow.
  const std::string& wanted = step.pattern.text();
  size_t done = 0;
  for (size_t at; (at = state.held.find(wanted, done)) != std::string::npos;) done = at + wanted.size();
  const size_t kept = partial_match(std::string_view(state.held).substr(done), wanted);
  const std::string ready = step.pattern.replace(state.held.substr(0, state.held.size() - kept), step.content);
  state.held.erase(0, state.held.size() - kept);
  if (!ready.empty()) feed(stream, i + 1, ready, false, out);
}

void TokenDecoder::feed_strip(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const {
  Stream::State& state = stream.states_[i];
  const Step& step = steps_[i];
  while (!state.start_done && !chunk.empty()) {
    if (state.n_stripped < step.start && chunk.starts_with(step.content)) {
      chunk.remove_prefix(step.content.size());
      ++state.n_stripped;
    } else {
      state.start_done = true;
    }
  }
  // Characters at the end wait: they go when the token ends with them.
  state.held += chunk;
  size_t n_last = 0;
  std::string_view body = state.held;
  while (n_last < step.stop && body.ends_with(step.content)) {
    body.remove_suffix(step.content.size());
    ++n_last;
  }
  const std::string ready(body);
  state.held.erase(0, ready.size());
  if (ends) state = Stream::State();
  if (!ready.empty() || ends) feed(stream, i + 1, ready, ends, out);
}

// The end of all tokens, step by step; Fuse and ByteLevel end their one token here.
void TokenDecoder::flush(Stream& stream, size_t i, std::string& out) const {
  if (i == steps_.size()) return;
  switch (steps_[i].kind) {
    case Kind::ByteLevel: {
      std::string text;
      stream.states_[i].replacer.finish(text);
      feed(stream, i + 1, text, true, out);
      break;
    }
    case Kind::Fuse:
      feed(stream, i + 1, "", true, out);
      break;
    case Kind::ByteFallback:
      flush_bytes(stream, i, out);
      break;
    case Kind::Bpe:
      if (stream.states_[i].n_tokens > 0) {
        feed(stream, i + 1, Pattern::literal(steps_[i].content).replace(stream.states_[i].waiting, ""), true, out);
      }
      break;
    case Kind::Metaspace:
    case Kind::Replace:
    case Kind::Strip:
      break;
  }
  flush(stream, i + 1, out);
}

void TokenDecoder::Stream::push(std::string_view piece, std::string& out) {
  decoder_->feed(*this, 0, piece, true, out);
}

void TokenDecoder::Stream::finish(std::string& out) {
  decoder_->flush(*this, 0, out);
  states_.assign(states_.size(), State());
}

}  // namespace loft
