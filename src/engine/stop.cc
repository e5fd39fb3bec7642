// engine: stop strings. At most 16 strings of 256 bytes, so each new byte is compared with the end of each string.
#include "engine/stop.h"

#include <algorithm>

#include "core/error.h"

namespace loft {

void check_stop_strings(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStopStrings) {
    fail(Code::BadRequest, "stop: {} strings, at most {} are taken", stops.size(), kMaxStopStrings);
  }
  for (const std::string& s : stops) {
    if (s.empty()) fail(Code::BadRequest, "stop: an empty string would end every answer");
    if (s.size() > kMaxStopBytes) {
      fail(Code::BadRequest, "stop: a string of {} bytes, at most {} are taken", s.size(), kMaxStopBytes);
    }
  }
}

std::string StopMatcher::push(std::string_view piece) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(piece);
  for (char c : piece) {
    pending_.push_back(c);
    const std::string* best = nullptr;
    for (const std::string& s : stops_) {
      if (pending_.size() >= s.size() && pending_.ends_with(s) && (!best || s.size() > best->size())) best = &s;
    }
    if (!best) continue;
    matched_ = *best;
    std::string shown = pending_.substr(0, pending_.size() - best->size());
    pending_.clear();
    return shown;
  }
  const size_t shown_bytes = pending_.size() - held_back();
  std::string shown = pending_.substr(0, shown_bytes);
  pending_.erase(0, shown_bytes);
  return shown;
}

size_t StopMatcher::held_back() const {
  size_t longest = 0;
  for (const std::string& s : stops_) {
    for (size_t n = std::min(s.size() - 1, pending_.size()); n > longest; --n) {
      if (pending_.ends_with(std::string_view(s).substr(0, n))) longest = n;
    }
  }
  return longest;
}

std::string StopMatcher::finish() {
  std::string rest;
  rest.swap(pending_);
  return rest;
}

}  // namespace loft
