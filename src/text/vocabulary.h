// text: pieces and their ids in flat memory. What enters: (piece, id) pairs of a file. What leaves: both directions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

/// Ids may have holes; an id has one piece and a piece one id.
class Vocabulary {
 public:
  static constexpr int64_t kMaxIds = int64_t(1) << 22;  // 16 times the largest vocabulary in use

  void reserve(size_t n_pieces, size_t n_bytes);
  /// Errors: Corrupt when the id is negative, has another piece already, or the piece another id; Unsupported when the
  /// id is kMaxIds or more. `where` names the place.
  void add(std::string_view piece, int64_t id, std::string_view where);

  std::optional<int32_t> id(std::string_view piece) const;
  std::optional<std::string_view> piece(int32_t id) const;
  int32_t size() const { return int32_t(spans_.size()); }  ///< largest id + 1

 private:
  struct Span {
    uint32_t offset = 0;
    int32_t length = -1;  // -1: a hole
  };
  struct Slot {
    int32_t id = -1;    // -1: free
    uint32_t hash = 0;  // most unequal pieces differ here already
  };
  void grow(size_t n_slots);
  size_t slot_of(std::string_view piece, size_t hash) const;
  std::string bytes_;
  std::vector<Span> spans_;  // by id
  std::vector<Slot> slots_;  // open addressing, a power of two
  size_t n_pieces_ = 0;
};

}  // namespace loft
