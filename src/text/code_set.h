// text: sets of code points for the classes of regular expressions. What enters: names of properties. What leaves:
// ranges.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode_tables.h"

namespace loft {

/// Ranges in ascending order without overlap.
class CodeSet {
 public:
  void add(char32_t first, char32_t last);
  void add(const CodeSet& other);
  CodeSet complement() const;
  CodeSet intersection(const CodeSet& other) const;
  CodeSet with_case_variants() const;  ///< and every character that differs from a member by case only
  bool operator==(const CodeSet&) const = default;
  const std::vector<CodeRange>& ranges() const { return ranges_; }

  /// A property as in \p{NAME}, a POSIX bracket name, or the letter of an escape (s, d, w, h); nullopt: not known here.
  static std::optional<CodeSet> named(std::string_view name);

 private:
  void merge();
  std::vector<CodeRange> ranges_;
};

}  // namespace loft
