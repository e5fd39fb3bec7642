// text: the partition. All ends of ranges cut the code points into intervals; intervals that are in the same sets share
// a class.
#include "text/byte_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "text/utf8.h"

namespace loft {
namespace {

constexpr size_t kMaxClasses = 250;

}  // namespace

ByteClasses::ByteClasses(const std::vector<CodeSet>& sets) {
  std::vector<char32_t> cuts = {0, '\n', '\n' + 1};
  for (const CodeSet& set : sets) {
    for (const CodeRange& range : set.ranges()) {
      cuts.push_back(range.first);
      cuts.push_back(range.last + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  while (!cuts.empty() && cuts.back() > 0x10FFFF) cuts.pop_back();

  std::map<Signature, uint8_t> known;
  std::vector<size_t> next_range(sets.size(), 0);
  std::vector<uint8_t> flat(0x110000, 0);
  classes_of_set_.resize(sets.size());
  for (size_t i = 0; i < cuts.size(); ++i) {
    const char32_t begin = cuts[i];
    const char32_t end = i + 1 < cuts.size() ? cuts[i + 1] : 0x110000;
    Signature in_set(sets.size() + 1);
    in_set.back() = begin == '\n';
    for (size_t s = 0; s < sets.size(); ++s) {
      const std::vector<CodeRange>& ranges = sets[s].ranges();
      while (next_range[s] < ranges.size() && ranges[next_range[s]].last < begin) ++next_range[s];
      in_set[s] = next_range[s] < ranges.size() && ranges[next_range[s]].first <= begin;
    }
    const auto [at, is_new] = known.try_emplace(in_set, uint8_t(0));
    if (is_new) {
      if (known.size() > kMaxClasses) return;
      // '\n' is kept for the line feed: other classes count from 0 and leave it out.
      const size_t count = all_.size();
      at->second = begin == '\n' ? uint8_t('\n') : uint8_t(count >= '\n' ? count + 1 : count);
      all_.push_back(at->second);
      for (size_t s = 0; s < sets.size(); ++s) {
        if (in_set[s]) classes_of_set_[s].push_back(at->second);
      }
    }
    std::fill(flat.begin() + ptrdiff_t(begin), flat.begin() + ptrdiff_t(end), at->second);
  }
  fill_pages(flat);
  is_valid_ = true;
}

void ByteClasses::fill_pages(const std::vector<uint8_t>& flat) {
  std::map<std::string_view, uint16_t> known;
  for (size_t i = 0; i < 0x1100; ++i) {
    const std::string_view bytes(reinterpret_cast<const char*>(flat.data()) + i * 256, 256);
    const auto [at, is_new] = known.try_emplace(bytes, uint16_t(pages_.size()));
    if (is_new) {
      pages_.emplace_back();
      std::copy_n(flat.begin() + ptrdiff_t(i * 256), 256, pages_.back().classes);
    }
    page_of_.push_back(at->second);
  }
}

void ByteClasses::translate(std::string_view valid, std::string& classes, std::vector<uint32_t>& offsets) const {
  classes.clear();
  offsets.clear();
  classes.resize(valid.size());
  const Page& ascii = pages_[page_of_[0]];
  size_t at = 0;
  for (; at < valid.size() && static_cast<unsigned char>(valid[at]) < 0x80; ++at) {
    classes[at] = static_cast<char>(ascii.classes[static_cast<unsigned char>(valid[at])]);
  }
  if (at == valid.size()) return;
  offsets.reserve(valid.size() + 1);
  for (size_t i = 0; i < at; ++i) offsets.push_back(uint32_t(i));
  size_t n = at;
  while (at < valid.size()) {
    offsets.push_back(uint32_t(at));
    classes[n++] = static_cast<char>(of(next_code_point(valid, at)));
  }
  offsets.push_back(uint32_t(at));
  classes.resize(n);
}

std::string ByteClasses::bracket(size_t i, bool negated) const {
  std::vector<bool> wanted(256, false);
  for (uint8_t c : negated ? all_ : classes_of_set_[i]) wanted[c] = true;
  if (negated) {
    for (uint8_t c : classes_of_set_[i]) wanted[c] = false;
  }
  std::string text;
  for (size_t c = 0; c < wanted.size(); ++c) {
    if (wanted[c]) text += fmt::format("\\x{:02x}", c);
  }
  return text.empty() ? "(?!)" : "[" + text + "]";
}

}  // namespace loft
