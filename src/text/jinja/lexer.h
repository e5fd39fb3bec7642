// text/jinja: template text to tokens, with jinja2's rules for whitespace around tags (trim_blocks and lstrip_blocks
// on). Enters: UTF-8 text. Leaves: all tokens at once; data tokens hold the text as it will be printed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace loft::jinja {

enum class TokenKind : uint8_t {
  Data,
  VariableBegin,
  VariableEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  int line = 1;
  std::string text;  // data, name, string value, operator
  Value value;       // Integer, Float
};

/// Errors: Corrupt for what jinja2 calls a syntax error, Unsupported for an integer beyond 128 bits. `where` is the
/// name in messages, as in "where:3: unexpected ')'".
std::vector<Token> tokenize(std::string_view source, std::string_view where);

}  // namespace loft::jinja
