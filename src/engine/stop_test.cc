// Stop strings: where the text is cut, what is held back, and that the cut does not depend on the pieces.
#include "engine/stop.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace loft {
namespace {

struct Shown {
  std::string text;
  std::optional<std::string> stop;
};

Shown run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& p : pieces) {
    text += matcher.push(p);
    if (matcher.matched()) return {text, matcher.matched()};
  }
  return {text + matcher.finish(), std::nullopt};
}

TEST(Stop, AMatchAcrossPiecesIsCutExactlyBefore) {
  const Shown r = run({"beta gamma"}, {"alpha be", "ta gam", "ma delta"});
  EXPECT_EQ(r.text, "alpha ");
  EXPECT_EQ(r.stop, "beta gamma");
}

TEST(Stop, ANearMissIsDeliveredInFullByTheEnd) {
  const Shown r = run({"beta gamma"}, {"alpha be", "ta gam", "ut delta beta gam"});
  EXPECT_EQ(r.text, "alpha beta gamut delta beta gam");
  EXPECT_EQ(r.stop, std::nullopt);
}

TEST(Stop, OnlyATailThatCouldBecomeAMatchIsHeldBack) {
  StopMatcher matcher({"\n\n", "User:"});
  EXPECT_EQ(matcher.push("hello\n"), "hello");
  EXPECT_EQ(matcher.push("Us"), "\n");
  EXPECT_EQ(matcher.push("eful"), "Useful");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(Stop, TheStringThatIsCompleteFirstWinsAndTheLongestAmongThose) {
  EXPECT_EQ(run({"abcdex", "bcd"}, {"zabcdex"}).text, "za");
  EXPECT_EQ(run({"cd", "abcd"}, {"zabcd"}).text, "z");
  EXPECT_EQ(run({"aab"}, {"aaab"}).text, "a");
}

// Seen to fail with only the end of each piece compared in push(), and with nothing held back.
TEST(Stop, TheResultDoesNotDependOnHowTheTextIsCut) {
  const std::string text = "one aab two abab three aabb END of it";
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{"aabb"}, {"abab", "two a"}, {"END of", "END"}, {"never"}, {"b"}, {"o"}}) {
    const Shown whole = run(stops, {text});
    for (size_t cut = 1; cut < 7; ++cut) {
      std::vector<std::string> pieces;
      for (size_t i = 0; i < text.size(); i += cut) pieces.push_back(text.substr(i, cut));
      const Shown r = run(stops, pieces);
      EXPECT_EQ(r.text, whole.text);
      EXPECT_EQ(r.stop, whole.stop);
    }
  }
}

TEST(Stop, EmptyLongAndManyStringsAreRefused) {
  EXPECT_NO_THROW(check_stop_strings({"a", std::string(256, 'x')}));
  EXPECT_THROW(check_stop_strings({""}), Error);
  EXPECT_THROW(check_stop_strings({std::string(257, 'x')}), Error);
  EXPECT_THROW(check_stop_strings(std::vector<std::string>(17, "a")), Error);
}

}  // namespace
}  // namespace loft
