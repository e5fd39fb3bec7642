// text: a partition of all code points into at most 256 classes, so that a regular expression over characters runs as
// one over bytes. What enters: the sets that a pattern uses. What leaves: the class of a character, the classes of a
// set.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/code_set.h"

namespace loft {

/// Two characters share a class when they are in the same sets. A line feed is alone in the class '\n', which is what ^
/// and $ look for.
class ByteClasses {
 public:
  ByteClasses() = default;
  /// is_valid() is false when more classes are needed than a byte can name.
  explicit ByteClasses(const std::vector<CodeSet>& sets);
  bool is_valid() const { return is_valid_; }

  uint8_t of(char32_t c) const { return pages_[page_of_[c >> 8]].classes[c & 255]; }
  /// One byte a character; `offsets` gets where each character begins and the length of the text, or stays empty when
  /// the text is ASCII and the offsets are the indices.
  void translate(std::string_view valid, std::string& classes, std::vector<uint32_t>& offsets) const;
  /// A bracket expression of bytes for sets[i], or for all but it.
  std::string bracket(size_t i, bool negated) const;

 private:
  struct Page {
    uint8_t classes[256];
    bool operator==(const Page&) const = default;
  };
  using Signature = std::vector<bool>;
  void fill_pages(const std::vector<uint8_t>& flat);
  bool is_valid_ = false;
  std::vector<uint16_t> page_of_;
  std::vector<Page> pages_;
  std::vector<std::vector<uint8_t>> classes_of_set_;
  std::vector<uint8_t> all_;
};

}  // namespace loft
