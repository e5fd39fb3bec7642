// text: the decoder of tokenizer.json as a chain of steps that works piece by piece. What enters: pieces of tokens.
// What leaves: text. The whole decode and the stream are this one chain, so they cannot differ.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace loft {

/// The chain. Const after load. Errors at load: Unsupported (type, by name), Corrupt.
class TokenDecoder {
 public:
  static TokenDecoder from_json(const Json& json, const std::string& where);  // null: pieces with a space between

  /// What one stream of pieces has to remember: at most the bytes that wait for their completion, and for a step that
  /// needs its whole input (a regex over fused text) that input.
  class Stream {
   public:
    explicit Stream(const TokenDecoder& decoder) : decoder_(&decoder), states_(decoder.steps_.size() + 1) {}
    void push(std::string_view piece, std::string& out);  ///< one whole piece of a token
    void finish(std::string& out);

   private:
    friend class TokenDecoder;
    struct State {
      std::string held;       // of a token that has not ended
      std::string waiting;    // ByteFallback: a run of bytes. Bpe: the token before
      size_t n_tokens = 0;    // tokens that have begun
      size_t n_stripped = 0;  // Strip: characters taken from the start of this token
      bool in_token = false;  // a token has begun and not ended
      bool start_done = false;
      Utf8Replacer replacer;  // ByteLevel
    };
    const TokenDecoder* decoder_;
    std::vector<State> states_;  // one a step, and one for the join of tokens
  };

 private:
  enum class Kind { ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, Bpe };
  struct Step {
    Kind kind;
    Pattern pattern = Pattern::literal("");  // Replace
    std::string content{};                   // Replace, Strip, Bpe (suffix), Metaspace (replacement)
    size_t start = 0, stop = 0;              // Strip: characters at most at each end
    bool drop_first = false;                 // Metaspace: its character vanishes in the first token
  };
  // A chunk of a token enters step i; ends: the token is complete with it.
  void feed(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const;
  void flush(Stream& stream, size_t i, std::string& out) const;
  void feed_byte_fallback(Stream& stream, size_t i, bool ends, std::string& out) const;
  void flush_bytes(Stream& stream, size_t i, std::string& out) const;
  void feed_metaspace(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const;
  void feed_replace(Stream& stream, size_t i, bool ends, std::string& out) const;
  void feed_strip(Stream& stream, size_t i, std::string_view chunk, bool ends, std::string& out) const;
  void join(Stream& stream, std::string_view chunk, bool ends, std::string& out) const;
  bool joins_with_space_ = true;  // the file has no decoder
  std::vector<Step> steps_;
};

}  // namespace loft
