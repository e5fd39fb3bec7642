// text: the vocabulary, one string of bytes and a hash table of ids.
#include "text/vocabulary.h"

#include <functional>

#include "core/error.h"

namespace loft {
namespace {

size_t hash_of(std::string_view piece) {
  return std::hash<std::string_view>()(piece);
}

}  // namespace

std::optional<std::string_view> Vocabulary::piece(int32_t id) const {
  if (id < 0 || size_t(id) >= spans_.size() || spans_[size_t(id)].length < 0) return std::nullopt;
  const Span& span = spans_[size_t(id)];
  return std::string_view(bytes_).substr(span.offset, size_t(span.length));
}

// The slot that holds the piece, or the free one where it belongs. There is always a free slot.
size_t Vocabulary::slot_of(std::string_view piece, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].id >= 0 &&
         (slots_[slot].hash != uint32_t(hash >> 32) || *this->piece(slots_[slot].id) != piece)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

std::optional<int32_t> Vocabulary::id(std::string_view piece) const {
  if (slots_.empty()) return std::nullopt;
  const int32_t id = slots_[slot_of(piece, hash_of(piece))].id;
  return id < 0 ? std::nullopt : std::optional(id);
}

void Vocabulary::grow(size_t n_slots) {
  slots_.assign(n_slots, {});
  for (size_t id = 0; id < spans_.size(); ++id) {
    if (spans_[id].length < 0) continue;
    const std::string_view text = *piece(int32_t(id));
    const size_t hash = hash_of(text);
    slots_[slot_of(text, hash)] = {int32_t(id), uint32_t(hash >> 32)};
  }
}

void Vocabulary::reserve(size_t n_pieces, size_t n_bytes) {
  size_t n_slots = 64;
  while (n_slots < 2 * n_pieces) n_slots *= 2;
  if (n_slots > slots_.size()) grow(n_slots);
  bytes_.reserve(n_bytes);
}

void Vocabulary::add(std::string_view piece, int64_t id, std::string_view where) {
  if (id < 0) fail(Code::Corrupt, "{}: the piece \"{}\" has the id {}, wanted 0 or more", where, piece, id);
  if (id >= kMaxIds)
    fail(Code::Unsupported, "{}: the piece \"{}\" has the id {}, at most {} is read", where, piece, id, kMaxIds - 1);
  if (2 * (n_pieces_ + 1) > slots_.size()) grow(slots_.empty() ? 64 : 2 * slots_.size());
  const size_t hash = hash_of(piece);
  Slot& slot = slots_[slot_of(piece, hash)];
  if (slot.id >= 0) {
    if (slot.id == id) return;
    fail(Code::Corrupt, "{}: the piece \"{}\" has two ids, {} and {}", where, piece, slot.id, id);
  }
  if (const auto other = this->piece(int32_t(id))) {
    fail(Code::Corrupt, "{}: the id {} stands for two pieces, \"{}\" and \"{}\"", where, id, *other, piece);
  }
  if (bytes_.size() + piece.size() > UINT32_MAX / 2) fail(Code::Unsupported, "{}: more than 2 GiB of pieces", where);
  if (size_t(id) >= spans_.size()) spans_.resize(size_t(id) + 1);
  spans_[size_t(id)] = {uint32_t(bytes_.size()), int32_t(piece.size())};
  bytes_.append(piece);
  slot = {int32_t(id), uint32_t(hash >> 32)};
  ++n_pieces_;
}

}  // namespace loft
