// text: character classes, normal forms and lower case. Hangul syllables are computed (Unicode standard, section 3.12).
#include "text/unicode.h"

#include <algorithm>
#include <optional>

#include "text/utf8.h"

namespace loft {
namespace {

constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;
constexpr CodeRange kSpaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};

uint16_t bits_of_category(Category c) {
  if (c >= Category::Lu && c <= Category::Lo) return kIsLetter;
  if (c >= Category::Mn && c <= Category::Me) return kIsMark;
  if (c >= Category::Nd && c <= Category::No) return kIsNumber;
  return 0;
}

const DecompositionEntry* find_entry(std::span<const DecompositionEntry> table, char32_t c) {
  const auto at = std::lower_bound(table.begin(), table.end(), c,
                                   [](const DecompositionEntry& entry, char32_t x) { return entry.code_point < x; });
  return at != table.end() && at->code_point == c ? &*at : nullptr;
}

uint8_t combining_class(char32_t c) {
  const auto at = std::upper_bound(kCombiningClasses.begin(), kCombiningClasses.end(), c,
                                   [](char32_t x, const CombiningClassRange& range) { return x < range.first; });
  if (at == kCombiningClasses.begin()) return 0;
  const CombiningClassRange& range = *(at - 1);
  return c <= range.last ? range.combining_class : uint8_t(0);
}

std::optional<char32_t> compose(char32_t first, char32_t second) {
  if (first - kLBase < kLCount && second - kVBase < kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second - kTBase - 1 < kTCount - 1) {
    return first + (second - kTBase);
  }
  const auto at = std::lower_bound(kCompositions.begin(), kCompositions.end(), std::pair(first, second),
                                   [](const CompositionEntry& entry, const std::pair<char32_t, char32_t>& key) {
                                     return std::pair(entry.first, entry.second) < key;
                                   });
  if (at == kCompositions.end() || at->first != first || at->second != second) return std::nullopt;
  return at->composed;
}

void append_entry(std::u32string& out, const DecompositionEntry& entry, std::span<const char32_t> pool) {
  out.append(pool.data() + entry.offset, entry.length);
}

void append_decomposed(std::u32string& out, char32_t c, bool compatible) {
  if (c - kSBase < kSCount) {
    const char32_t s = c - kSBase;
    out.push_back(kLBase + s / (kVCount * kTCount));
    out.push_back(kVBase + s % (kVCount * kTCount) / kTCount);
    if (s % kTCount != 0) out.push_back(kTBase + s % kTCount);
    return;
  }
  const uint16_t bits = CharTable::get().bits(c);
  if (compatible && (bits & kHasCompatible)) return append_entry(out, *find_entry(kCompatible, c), kCompatiblePool);
  if (bits & kHasCanonical) return append_entry(out, *find_entry(kCanonical, c), kCanonicalPool);
  out.push_back(c);
}

// Marks between two starters are put in order of their combining class; equal classes keep their order.
void reorder_marks(std::u32string& text) {
  const CharTable& table = CharTable::get();
  for (size_t i = 0; i < text.size();) {
    if (!(table.bits(text[i]) & kMayReorder)) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && (table.bits(text[i]) & kMayReorder)) ++i;
    std::stable_sort(text.begin() + ptrdiff_t(begin), text.begin() + ptrdiff_t(i),
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }
}

// Canonical composition in place: a mark joins the last starter unless one of its own class or higher stands between.
void compose_all(std::u32string& text) {
  size_t written = 0;
  std::optional<size_t> starter;
  int last_class = -1;  // of what was written after the starter; -1: nothing was
  for (const char32_t c : std::u32string(text)) {
    const int own_class = combining_class(c);
    if (starter && (last_class < own_class || last_class == -1)) {
      if (const std::optional<char32_t> joined = compose(text[*starter], c)) {
        text[*starter] = *joined;
        continue;
      }
    }
    if (own_class == 0) {
      starter = written;
      last_class = -1;
    } else {
      last_class = own_class;
    }
    text[written++] = c;
  }
  text.resize(written);
}

}  // namespace

CharTable::CharTable() {
  std::vector<uint16_t> flat(0x110000, 0);
  const auto set = [&](std::span<const CodeRange> ranges, uint16_t bit) {
    for (const CodeRange& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) flat[c] = uint16_t(flat[c] | bit);
    }
  };
  for (size_t i = 0; i < kCategoryRuns.size(); ++i) {
    const char32_t end = i + 1 < kCategoryRuns.size() ? kCategoryRuns[i + 1].first : 0x110000;
    const CodeRange run[] = {{kCategoryRuns[i].first, end - 1}};
    set(run, bits_of_category(static_cast<Category>(kCategoryRuns[i].category)));
  }
  set(kSpaces, kIsSpace);
  set(kWord, kIsWord);
  set(kNumeric, kIsNumeric);
  set(kPunctuation, kIsPunctuation);
  set(kCombiningMark, kIsCombiningMark);
  const auto set_entries = [&](std::span<const DecompositionEntry> entries, uint16_t bit) {
    for (const DecompositionEntry& e : entries) flat[e.code_point] = uint16_t(flat[e.code_point] | bit);
  };
  set_entries(kLower, kHasLower);
  set_entries(kCanonical, kHasCanonical);
  set_entries(kCompatible, kHasCompatible);
  for (const CombiningClassRange& r : kCombiningClasses) {
    const CodeRange range[] = {{r.first, r.last}};
    set(range, kMayReorder);
  }
  for (const CompositionEntry& e : kCompositions) flat[e.second] = uint16_t(flat[e.second] | kMayJoin);
  const CodeRange jamo[] = {{kVBase, kVBase + kVCount - 1}, {kTBase + 1, kTBase + kTCount - 1}};
  set(jamo, kMayJoin);
  const CodeRange syllables[] = {{kSBase, kSBase + kSCount - 1}};
  set(syllables, kHasCanonical);

  for (size_t i = 0; i < 0x1100; ++i) {
    Page page;
    std::copy_n(flat.begin() + ptrdiff_t(i * 256), 256, page.bits);
    auto at = std::find(pages_.begin(), pages_.end(), page);
    if (at == pages_.end()) at = pages_.insert(pages_.end(), page);
    page_of_[i] = uint16_t(at - pages_.begin());
  }
}

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

std::string normalize(std::string_view valid, NormalForm form) {
  const bool compatible = form == NormalForm::NFKC || form == NormalForm::NFKD;
  const bool composed = form == NormalForm::NFC || form == NormalForm::NFKC;
  const CharTable& table = CharTable::get();
  const int relevant = kHasCanonical | kMayReorder | (compatible ? kHasCompatible : 0) | (composed ? kMayJoin : 0);
  bool changes = false;
  for (size_t at = 0; at < valid.size() && !changes;) {
    const char32_t c = next_code_point(valid, at);
    if (composed && c - kSBase < kSCount) continue;  // a syllable composes to itself; a jamo after it has kMayJoin
    // Nothing below U+0300 decomposes or reorders in NFC.
    if (form == NormalForm::NFC && c < 0x300) continue;
    changes = (table.bits(c) & relevant) != 0;
  }
  if (!changes) return std::string(valid);

  std::u32string text;
  text.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) append_decomposed(text, next_code_point(valid, at), compatible);
  reorder_marks(text);
  if (composed) compose_all(text);
  return to_utf8(text);
}

std::string to_lower(std::string_view valid) {
  const CharTable& table = CharTable::get();
  std::string out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(valid, at);
    if (table.bits(c) & kHasLower) {
      const DecompositionEntry& entry = *find_entry(kLower, c);
      for (char32_t x : kLowerPool.subspan(entry.offset, entry.length)) append_utf8(out, x);
    } else {
      out.append(valid.substr(begin, at - begin));
    }
  }
  return out;
}

}  // namespace loft
