// text/jinja: code points in UTF-8 and what Python's str knows of them. Enters: UTF-8 text; a byte that is not UTF-8
// counts as one code point of its own value. Leaves: code points, classes, case mappings.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace loft::jinja {

/// The code point at byte `pos`, which moves past it.
char32_t next_char(std::string_view text, size_t& pos);
void append_char(std::string& out, char32_t c);
size_t count_chars(std::string_view text);
/// Byte offset of code point i, or text.size() when there are fewer.
size_t byte_offset(std::string_view text, size_t i_char);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);
std::optional<size_t> find_invalid_utf8(std::string_view text);  // offset of the first byte that is no UTF-8

bool is_space(char32_t c);       // str.isspace, and what strip() and split() cut
bool is_line_break(char32_t c);  // what splitlines() cuts
bool is_printable(char32_t c);   // what repr() shows as it is
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);  // str.title, not the filter
std::string capitalize(std::string_view text);
std::string swapcase(std::string_view text);
std::string casefold(std::string_view text);

enum class Side { Left, Right, Both };
/// Cuts whitespace, or the code points of *chars, from the sides.
std::string_view strip(std::string_view text, Side side, const std::string_view* chars = nullptr);

}  // namespace loft::jinja
