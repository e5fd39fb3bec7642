// measure: lists of numbers on the command line of a benchmark: "512", "1,2,4", "1-8*2", "100-400+100", and repeats of
// a flag. Texts enter; numbers in the order written leave.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loft {

/// The numbers of all texts, each in lo..hi. a-b counts by one, a-b+s by s, a-b*f multiplies by f; b itself is in when
/// it is reached. Errors: BadRequest naming flag, text and what is wanted; a list of more than kMaxListed numbers.
std::vector<int64_t> parse_numbers(std::string_view flag, std::span<const std::string> texts, int64_t lo, int64_t hi);
inline constexpr size_t kMaxListed = 10000;

/// Pairs "P,N", one a text. Errors as above.
std::vector<std::pair<int64_t, int64_t>> parse_pairs(std::string_view flag, std::span<const std::string> texts,
                                                     int64_t lo, int64_t hi);

/// Products "NxK", separated by commas.
std::vector<std::pair<int64_t, int64_t>> parse_shapes(std::string_view flag, std::span<const std::string> texts);

/// The parts of a text between separators; an empty text has one empty part.
std::vector<std::string> split_text(std::string_view text, char separator);

/// Words of a command line kept in one option: separated by blanks; '..' and ".." keep blanks. Error: BadRequest for a
/// quote without its end.
std::vector<std::string> split_words(std::string_view flag, std::string_view text);

}  // namespace loft
