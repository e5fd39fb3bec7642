// text: patterns over PCRE2, with limits on matching so that a hostile pattern ends with an error and not with a hang.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/utf8.h"

namespace loft {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr size_t kMaxPatternBytes = 8 << 10;

struct MatchDataFree {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

void add(std::vector<MatchRange>& ranges, size_t begin, size_t end, bool is_match) {
  if (begin < end) ranges.push_back({begin, end, is_match});
}

void split_literal(std::string_view text, std::string_view wanted, std::vector<MatchRange>& ranges) {
  size_t done = 0;
  while (!wanted.empty()) {
    const size_t at = text.find(wanted, done);
    if (at == std::string_view::npos) break;
    add(ranges, done, at, false);
    done = at + wanted.size();
    add(ranges, at, done, true);
  }
  add(ranges, done, text.size(), false);
}

}  // namespace

struct Pattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  ByteClasses classes;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }
};

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(std::string_view text, std::string_view where, bool allow_scanner) {
  Pattern pattern;
  pattern.text_ = text;
  if (text.size() > kMaxPatternBytes) {
    fail(Code::Unsupported, "{}: a pattern of {} bytes, at most {} are read", where, text.size(), kMaxPatternBytes);
  }
  if (allow_scanner) pattern.scanner_ = find_scanner(text);
  if (pattern.scanner_) return pattern;

  ByteRegex rewritten = rewrite_for_pcre2(text, where);
  auto compiled = std::make_shared<Compiled>();
  compiled->classes = std::move(rewritten.classes);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby's ^ and $ stand at every line.
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.pattern.data()), rewritten.pattern.size(),
                                 PCRE2_MULTILINE, &error, &offset, nullptr);
  if (!compiled->code) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    fail(Code::Corrupt, "{}: the pattern \"{}\" is not a regular expression: {}", where, text,
         reinterpret_cast<const char*>(message));
  }
  compiled->context = pcre2_match_context_create(nullptr);
  if (!compiled->context) fail(Code::OutOfMemory, "{}: no memory for a regular expression", where);
  pcre2_set_match_limit(compiled->context, kMatchLimit);
  pcre2_set_depth_limit(compiled->context, kDepthLimit);
  pattern.regex_ = std::move(compiled);
  return pattern;
}

Pattern Pattern::from_json(const Json& json, std::string_view where) {
  const std::string place(where);
  if (std::optional<std::string> text = loft::find<std::string>(json, "String", place))
    return literal(*std::move(text));
  if (std::optional<std::string> text = loft::find<std::string>(json, "Regex", place))
    return regex(*text, place + ".Regex");
  fail(Code::Corrupt, "{}: found {}, wanted {{\"String\": ..}} or {{\"Regex\": ..}}", where, brief(json));
}

void Pattern::split(std::string_view text, std::vector<MatchRange>& ranges) const {
  ranges.clear();
  if (scanner_) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = scanner_->next(*scanner_, text, at);
      ranges.push_back({at, end, true});
      at = end;
    }
  } else if (regex_) {
    split_regex(text, ranges);
  } else {
    split_literal(text, text_, ranges);
  }
}

// An empty match right behind the last one is passed over; others stand in the list as ranges without bytes.
void Pattern::split_regex(std::string_view text, std::vector<MatchRange>& ranges) const {
  const std::unique_ptr<pcre2_match_data, MatchDataFree> match(
      pcre2_match_data_create_from_pattern(regex_->code, nullptr));
  if (!match) fail(Code::OutOfMemory, "no memory to match a regular expression");
  std::string classes;
  std::vector<uint32_t> offsets;
  regex_->classes.translate(text, classes, offsets);
  const auto place = [&](size_t i) { return offsets.empty() ? i : size_t(offsets[i]); };
  size_t done = 0;
  size_t search = 0;
  std::optional<size_t> last_end;
  while (search <= classes.size()) {
    const int found = pcre2_match(regex_->code, reinterpret_cast<PCRE2_SPTR>(classes.data()), classes.size(), search, 0,
                                  match.get(), regex_->context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      fail(Code::Unsupported, "the pattern \"{}\" needs too many steps on this text (code {})", text_, found);
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    if (begin == end && last_end == end) {
      ++search;
      continue;
    }
    search = end;
    last_end = end;
    add(ranges, place(done), place(begin), false);
    ranges.push_back({place(begin), place(end), true});
    done = end;
  }
  add(ranges, place(done), text.size(), false);
}

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::vector<MatchRange> ranges;
  split(text, ranges);
  std::string out;
  for (const MatchRange& range : ranges) {
    out.append(range.is_match ? content : text.substr(range.begin, range.end - range.begin));
  }
  return out;
}

}  // namespace loft
