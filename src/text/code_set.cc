// text: sets of code points, read from the measured Unicode tables.
#include "text/code_set.h"

#include <algorithm>
#include <iterator>

#include "text/unicode.h"

namespace loft {
namespace {

using enum Category;

// Every property that is known, by its name in lower case without spaces, '_' and '-': a run of categories, a measured
// table, or both. A name may stand in several rows; the set is their union.
struct Property {
  std::string_view name;
  std::optional<Category> first, last;
  const std::span<const CodeRange>* table;
};
const Property kProperties[] = {
    {"cn", Cn, Cn, nullptr},          {"lu", Lu, Lu, nullptr},
    {"ll", Ll, Ll, nullptr},          {"lt", Lt, Lt, nullptr},
    {"lm", Lm, Lm, nullptr},          {"lo", Lo, Lo, nullptr},
    {"mn", Mn, Mn, nullptr},          {"mc", Mc, Mc, nullptr},
    {"me", Me, Me, nullptr},          {"nd", Nd, Nd, nullptr},
    {"nl", Nl, Nl, nullptr},          {"no", No, No, nullptr},
    {"pc", Pc, Pc, nullptr},          {"pd", Pd, Pd, nullptr},
    {"ps", Ps, Ps, nullptr},          {"pe", Pe, Pe, nullptr},
    {"pi", Pi, Pi, nullptr},          {"pf", Pf, Pf, nullptr},
    {"po", Po, Po, nullptr},          {"sm", Sm, Sm, nullptr},
    {"sc", Sc, Sc, nullptr},          {"sk", Sk, Sk, nullptr},
    {"so", So, So, nullptr},          {"zs", Zs, Zs, nullptr},
    {"zl", Zl, Zl, nullptr},          {"zp", Zp, Zp, nullptr},
    {"cc", Cc, Cc, nullptr},          {"cf", Cf, Cf, nullptr},
    {"co", Co, Co, nullptr},          {"l", Lu, Lo, nullptr},
    {"letter", Lu, Lo, nullptr},      {"m", Mn, Me, nullptr},
    {"mark", Mn, Me, nullptr},        {"n", Nd, No, nullptr},
    {"number", Nd, No, nullptr},      {"p", Pc, Po, nullptr},
    {"punctuation", Pc, Po, nullptr}, {"s", Sm, So, nullptr},
    {"symbol", Sm, So, nullptr},      {"z", Zs, Zp, nullptr},
    {"separator", Zs, Zp, nullptr},   {"punct", Pc, So, nullptr},
    {"digit", Nd, Nd, nullptr},       {"cntrl", Cc, Cc, nullptr},
    {"alpha", {}, {}, &kRegexAlpha},  {"alphabetic", {}, {}, &kRegexAlpha},
    {"alnum", Nd, Nd, &kRegexAlpha},  {"word", {}, {}, &kRegexWord},
    {"han", {}, {}, &kHan},           {"hiragana", {}, {}, &kHiragana},
    {"katakana", {}, {}, &kKatakana}, {"hangul", {}, {}, &kHangul},
};
struct FixedRanges {
  std::string_view name;
  CodeRange range;
};
constexpr FixedRanges kFixed[] = {
    {"any", {0, 0x10FFFF}},      {"ascii", {0, 0x7F}},        {"xdigit", {'0', '9'}},      {"xdigit", {'A', 'F'}},
    {"xdigit", {'a', 'f'}},      {"space", {0x9, 0xD}},       {"space", {0x20, 0x20}},     {"space", {0x85, 0x85}},
    {"space", {0xA0, 0xA0}},     {"space", {0x1680, 0x1680}}, {"space", {0x2000, 0x200A}}, {"space", {0x2028, 0x2029}},
    {"space", {0x202F, 0x202F}}, {"space", {0x205F, 0x205F}}, {"space", {0x3000, 0x3000}},
};

// Characters that fold to another one although they are lower case themselves (CaseFolding.txt, status C).
constexpr std::pair<char32_t, char32_t> kExtraFolds[] = {
    {0xB5, 0x3BC},  {0x17F, 's'},   {0x345, 0x3B9}, {0x3C2, 0x3C3}, {0x3D0, 0x3B2},   {0x3D1, 0x3B8},  {0x3D5, 0x3C6},
    {0x3D6, 0x3C0}, {0x3F0, 0x3BA}, {0x3F1, 0x3C1}, {0x3F5, 0x3B5}, {0x1E9B, 0x1E61}, {0x1FBE, 0x3B9},
};

// All characters with a case variant, as (character, what it folds to).
std::vector<std::pair<char32_t, char32_t>> case_folds() {
  std::vector<std::pair<char32_t, char32_t>> folds(std::begin(kExtraFolds), std::end(kExtraFolds));
  for (const DecompositionEntry& entry : kLower) {
    if (entry.length == 1) folds.emplace_back(entry.code_point, kLowerPool[entry.offset]);
  }
  return folds;
}

}  // namespace

CodeSet CodeSet::with_case_variants() const {
  const auto holds = [&](char32_t c) {
    const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                     [](char32_t x, const CodeRange& range) { return x < range.first; });
    return at != ranges_.begin() && c <= (at - 1)->last;
  };
  static const std::vector<std::pair<char32_t, char32_t>> folds = case_folds();
  CodeSet folded;  // what members fold to
  for (const auto& [c, to] : folds) {
    if (holds(c) || holds(to)) folded.ranges_.push_back({to, to});
  }
  folded.merge();
  CodeSet result = *this;
  result.ranges_.insert(result.ranges_.end(), folded.ranges_.begin(), folded.ranges_.end());
  for (const auto& [c, to] : folds) {
    const auto at = std::lower_bound(folded.ranges_.begin(), folded.ranges_.end(), to,
                                     [](const CodeRange& range, char32_t x) { return range.last < x; });
    if (at != folded.ranges_.end() && at->first <= to) result.ranges_.push_back({c, c});
  }
  result.merge();
  return result;
}

void CodeSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  merge();
}

void CodeSet::add(const CodeSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  merge();
}

void CodeSet::merge() {
  std::sort(ranges_.begin(), ranges_.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> merged;
  for (const CodeRange& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

CodeSet CodeSet::complement() const {
  CodeSet result;
  char32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) result.ranges_.push_back({next, 0x10FFFF});
  return result;
}

CodeSet CodeSet::intersection(const CodeSet& other) const {
  CodeSet outside = complement();
  outside.add(other.complement());
  return outside.complement();
}

std::optional<CodeSet> CodeSet::named(std::string_view name) {
  std::string key;
  for (char c : name) {
    if (c != ' ' && c != '_' && c != '-') key.push_back(c >= 'A' && c <= 'Z' ? char(c + 32) : c);
  }
  if (key == "whitespace") key = "space";
  CodeSet result;
  for (const FixedRanges& row : kFixed) {
    if (row.name == key) result.ranges_.push_back(row.range);
  }
  for (const Property& row : kProperties) {
    if (row.name != key) continue;
    if (row.table) result.ranges_.insert(result.ranges_.end(), row.table->begin(), row.table->end());
    for (size_t i = 0; row.first && i < kCategoryRuns.size(); ++i) {
      const auto category = static_cast<Category>(kCategoryRuns[i].category);
      const char32_t end = i + 1 < kCategoryRuns.size() ? kCategoryRuns[i + 1].first : 0x110000;
      if (category >= *row.first && category <= *row.last) result.ranges_.push_back({kCategoryRuns[i].first, end - 1});
    }
  }
  if (result.ranges_.empty()) return std::nullopt;
  result.merge();
  return result;
}

}  // namespace loft
