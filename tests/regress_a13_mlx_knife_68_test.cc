// Public report mzau/mlx-knife#68: a stop string that spans tokens was never seen, and one-token stops leaked into the
// output. Seen to fail with nothing held back by StopMatcher, and without the flush of what it holds at an answer's
// end.
#include <gtest/gtest.h>

#include "engine/scripted_engine.h"

namespace loft {
namespace {

using namespace scripted;

const Vocabulary kVocabulary = {.pieces = {"alpha be", "ta gam", "ma delta", "ut", "STOP"}, .specials = {"<eos>"}};
const int32_t kEos = kVocabulary.special(0);

struct Streamed {
  std::string text;  // the sum of the stream
  std::vector<std::string> parts;
  Finish finish;
};

Streamed stream(std::vector<int32_t> ids, std::vector<std::string> stop) {
  EngineOptions options;
  options.stop_ids = {kEos};
  Scripted s = make_engine(kVocabulary, forced(std::move(ids), 1, kEos), options);
  Request r;
  r.prompt = {65};
  r.sampling = greedy();
  r.stop = std::move(stop);
  s.engine->submit(r);
  Streamed out;
  while (!s.engine->is_idle()) {
    for (const StepEvent& e : s.engine->step()) {
      out.text += e.text;
      if (!e.text.empty()) out.parts.push_back(e.text);
      if (e.finish) out.finish = *e.finish;
    }
  }
  return out;
}

TEST(RegressA13, AStopThatSpansTokensCutsExactlyBeforeTheMatch) {
  const Streamed s = stream({256, 257, 258}, {"beta gamma"});
  EXPECT_EQ(s.text, "alpha ");
  EXPECT_EQ(s.finish.reason, FinishReason::Stop);
  EXPECT_EQ(s.finish.stop, "beta gamma");
  EXPECT_EQ(s.finish.usage.completion_tokens, 3);
}

TEST(RegressA13, AStopEqualToOnePieceShowsNothingOfIt) {
  const Streamed s = stream({256, 260, 258}, {"STOP"});
  EXPECT_EQ(s.text, "alpha be");
  EXPECT_EQ(s.finish.stop, "STOP");
}

TEST(RegressA13, ANearMissIsDeliveredInFullByTheEnd) {
  const Streamed s = stream({256, 257, 259}, {"beta gamma"});
  EXPECT_EQ(s.text, "alpha beta gamut");
  EXPECT_EQ(s.finish.reason, FinishReason::Stop);
  EXPECT_EQ(s.finish.stop, std::nullopt);
  EXPECT_EQ(s.parts[0], "alpha ") << "only the tail that could become a match is held back";
  EXPECT_EQ(s.finish.usage.completion_tokens, stream({256, 257, 259}, {}).finish.usage.completion_tokens);
}

TEST(RegressA13, ATailHeldBackWhenTheAnswerEndsIsStillDelivered) {
  EXPECT_EQ(stream({256, 257}, {"beta gamma"}).text, "alpha beta gam");
}

}  // namespace
}  // namespace loft
