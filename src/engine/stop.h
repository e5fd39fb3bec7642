// engine: stop strings over the text of an answer. Text enters in pieces of any size; what is sure to be shown leaves.
// The one matcher for the command line and every route of the server.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

inline constexpr size_t kMaxStopStrings = 16;  // OpenAI's schema allows 4
inline constexpr size_t kMaxStopBytes = 256;

/// Error: BadRequest for too many stop strings, an empty one, or one that is too long.
void check_stop_strings(const std::vector<std::string>& stops);

/// Finds the stop string that is complete first; of those that end at the same byte, the longest. The result does not
/// depend on how the text is cut into pieces.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {}

  /// Takes the next piece and returns the text that can be shown: all before a match, or all but the longest tail that
  /// may still become one. After a match nothing more is returned.
  std::string push(std::string_view piece);
  /// The end of the text: returns the held-back tail.
  std::string finish();
  /// The stop string that was found.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;  // not shown yet; never longer than the longest stop string after a push
  std::optional<std::string> matched_;
};

}  // namespace loft
