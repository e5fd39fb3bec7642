// The engine over scripted models: text, ends, errors, batches, chunks and reuse.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/scripted_engine.h"

namespace loft {
namespace {

using namespace scripted;
using testing::ElementsAre;
using testing::HasSubstr;

const Vocabulary kWords = {.pieces = {"alpha be", "ta gam", "ma delta", "ut", "\xF0\x9F", "\x98\x80"},
                           .specials = {"<bos>", "<eos>", "<end>"}};
const int32_t kEos = kWords.special(1);

Request greedy_request(std::vector<int32_t> prompt = {65}) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling = greedy();
  return r;
}

std::string error_of(Engine& engine, Request request) {
  try {
    engine.submit(std::move(request));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    return e.what();
  }
  return "accepted";
}

TEST(Engine, AStopTokenEndsTheAnswerAndIsInNeitherTextNorCount) {
  Scripted s = make_engine(kWords, forced({256, 257}, 1, kEos), {.stop_ids = {kEos}});
  const Answer a = answer(*s.engine, greedy_request());
  EXPECT_EQ(a.text, "alpha beta gam");
  EXPECT_THAT(a.tokens, ElementsAre(256, 257));
  ASSERT_TRUE(a.finish);
  EXPECT_EQ(a.finish->reason, FinishReason::Stop);
  EXPECT_EQ(a.finish->stop, std::nullopt);
  EXPECT_EQ(a.finish->usage.prompt_tokens, 1);
  EXPECT_EQ(a.finish->usage.completion_tokens, 2);
}

TEST(Engine, MaxTokensAndTheContextEndWithLength) {
  Scripted s = make_engine(kWords, forced({}, 1, 97), {.context = 8, .stop_ids = {kEos}});
  Request r = greedy_request();
  r.max_tokens = 3;
  Answer a = answer(*s.engine, r);
  EXPECT_EQ(a.text, "aaa");
  EXPECT_EQ(a.finish->reason, FinishReason::Length);
  r.max_tokens = 1000;  // clamped to the room left
  EXPECT_EQ(answer(*s.engine, r).text, "aaaaaaa");
  r.max_tokens.reset();
  EXPECT_EQ(answer(*s.engine, r).text, "aaaaaaa");
  r.prompt.assign(8, 65);  // no room at all
  a = answer(*s.engine, r);
  EXPECT_EQ(a.text, "");
  EXPECT_EQ(a.finish->reason, FinishReason::Length);
}

TEST(Engine, MaxTokensZeroCountsThePromptAndEnds) {
  Scripted s = make_engine(kWords, forced({}, 1, 97));
  Request r = greedy_request({65, 66});
  r.max_tokens = 0;
  const Answer a = answer(*s.engine, r);
  EXPECT_EQ(a.finish->reason, FinishReason::Length);
  EXPECT_EQ(a.finish->usage.prompt_tokens, 2);
  EXPECT_EQ(a.finish->usage.completion_tokens, 0);
  EXPECT_EQ(s.model->n_rows, 0) << "no forward pass is needed";
}

TEST(Engine, MaxTokensZeroWithLogprobsTellsTheNextTokens) {
  Scripted s = make_engine(kWords, hashed_logits);
  Request r = greedy_request({65, 66});
  r.max_tokens = 0;
  r.top_logprobs = 4;
  const Answer a = answer(*s.engine, r);
  ASSERT_EQ(a.finish->next.size(), 4u);
  EXPECT_TRUE(a.tokens.empty());
  EXPECT_GE(a.finish->next[0].logit, a.finish->next[1].logit);
  std::vector<float> row(size_t(kWords.size()));
  hashed_logits(r.prompt, row);
  EXPECT_EQ(a.finish->next[0].id, argmax(row));
}

TEST(Engine, LogprobsComeWithEachTokenAndAreThoseBeforeTheSamplers) {
  Scripted s = make_engine(kWords, hashed_logits);
  Request r = greedy_request({65});
  r.max_tokens = 3;
  r.top_logprobs = 2;
  r.sampling.logit_bias = {{.id = 98, .bias = 100}};
  const Answer a = answer(*s.engine, r);
  EXPECT_THAT(a.tokens, ElementsAre(98, 98, 98));
  ASSERT_EQ(a.logprobs.size(), 3u);
  std::vector<float> row(size_t(kWords.size()));
  hashed_logits(r.prompt, row);
  EXPECT_EQ(a.logprobs[0].chosen.logit, row[98]);
  EXPECT_EQ(a.logprobs[0].top.size(), 2u);
  EXPECT_LT(a.logprobs[0].chosen.logprob, 0);
}

TEST(Engine, AStopStringIsCutAcrossTokensAndItsTokensCount) {
  Scripted s = make_engine(kWords, forced({256, 257, 258}, 1, 97), {.stop_ids = {kEos}});
  Request r = greedy_request();
  r.stop = {"beta gamma"};
  const Answer a = answer(*s.engine, r);
  EXPECT_EQ(a.text, "alpha ");
  EXPECT_EQ(a.finish->reason, FinishReason::Stop);
  EXPECT_EQ(a.finish->stop, "beta gamma");
  EXPECT_EQ(a.finish->usage.completion_tokens, 3);
}

TEST(Engine, TextOfHalfACharacterWaitsForTheRest) {
  Scripted s = make_engine(kWords, forced({260, 261}, 1, kEos), {.stop_ids = {kEos}});
  s.engine->submit(greedy_request());
  EXPECT_EQ(s.engine->step()[0].text, "");
  EXPECT_EQ(s.engine->step()[0].text, "\xF0\x9F\x98\x80");
}

TEST(Engine, RequestsThatCannotRunAreRefusedWithTheirNumbers) {
  Scripted s = make_engine(kWords, forced({}, 1, 97), {.context = 8});
  EXPECT_THAT(error_of(*s.engine, greedy_request(std::vector<int32_t>(9, 65))),
              HasSubstr("the prompt has 9 tokens, the context holds 8"));
  EXPECT_THAT(error_of(*s.engine, greedy_request({})), HasSubstr("empty"));
  EXPECT_THAT(error_of(*s.engine, greedy_request({-1})), HasSubstr("token id -1"));
  EXPECT_THAT(error_of(*s.engine, greedy_request({int32_t(kWords.size())})), HasSubstr("outside the vocabulary"));
  Request r = greedy_request();
  r.top_logprobs = 21;
  EXPECT_THAT(error_of(*s.engine, r), HasSubstr("top_logprobs must be between 0 and 20, got 21"));
  r = greedy_request();
  r.max_tokens = -2;
  EXPECT_THAT(error_of(*s.engine, r), HasSubstr("max_tokens"));
  r = greedy_request();
  r.stop = {""};
  EXPECT_THAT(error_of(*s.engine, r), HasSubstr("stop"));
  r = greedy_request();
  r.sampling.logit_bias = {{.id = 100000, .bias = 1}};
  EXPECT_THAT(error_of(*s.engine, r), HasSubstr("logit_bias"));
  EXPECT_TRUE(s.engine->is_idle());
}

TEST(Engine, AContextBeyondTheModelIsRefused) {
  EXPECT_THROW(make_engine(kWords, hashed_logits, {.context = 5000}), Error);  // the scripted model says 4096
}

// Seen to fail without the flush of held-back text in finish, and with running or waiting sequences left out of
// end_cancelled.
TEST(Engine, ACancelledSequenceEndsAtTheNextStepWithItsHeldBackText) {
  Scripted s = make_engine(kWords, forced({256}, 1, 97));
  Request r = greedy_request();
  r.stop = {"beta"};
  const SequenceId id = s.engine->submit(r);
  const SequenceId waiting = s.engine->submit(r);
  EXPECT_EQ(s.engine->step()[0].text, "alpha ");  // "be" could become a match
  EXPECT_TRUE(s.engine->cancel(id));
  EXPECT_TRUE(s.engine->cancel(waiting));
  EXPECT_FALSE(s.engine->cancel(99));
  auto answers = drain(*s.engine);
  EXPECT_EQ(answers[id].text, "be");
  EXPECT_EQ(answers[id].finish->reason, FinishReason::Cancelled);
  EXPECT_EQ(answers[waiting].finish->reason, FinishReason::Cancelled);
  EXPECT_EQ(answers[waiting].finish->usage.completion_tokens, 0);
  EXPECT_FALSE(s.engine->cancel(id));
  EXPECT_EQ(answer(*s.engine, greedy_request()).finish->reason, FinishReason::Length) << "the engine goes on";
}

// Seen to fail with the logits of the whole batch searched for NaN together.
TEST(Engine, ANonFiniteLogitEndsItsOwnSequenceOnly) {
  const auto fn = [](std::span<const int32_t> tokens, std::span<float> row) {
    row[97] = 5;
    if (tokens[0] == 66 && tokens.size() == 3) row[3] = NAN;
  };
  Scripted s = make_engine(kWords, fn, {.parallel = 2});
  Request r = greedy_request({65});
  r.max_tokens = 5;
  const SequenceId good = s.engine->submit(r);
  r.prompt = {66};
  const SequenceId bad = s.engine->submit(r);
  auto answers = drain(*s.engine);
  EXPECT_EQ(answers[good].text, "aaaaa");
  EXPECT_EQ(answers[bad].text, "aa");
  ASSERT_TRUE(answers[bad].finish->failure);
  EXPECT_EQ(answers[bad].finish->failure->code, Code::NonFinite);
  EXPECT_THAT(answers[bad].finish->failure->message, HasSubstr("token 3 at position 2"));
}

TEST(Engine, ADeviceErrorEndsTheStepsSequencesAndTheEngineGoesOn) {
  bool is_broken = true;
  const auto fn = [&](std::span<const int32_t>, std::span<float> row) {
    if (is_broken) fail(Code::Device, "the device went away");
    row[97] = 5;
  };
  Scripted s = make_engine(kWords, fn);
  Request r = greedy_request();
  r.max_tokens = 2;
  const Answer a = answer(*s.engine, r);
  EXPECT_EQ(a.finish->reason, FinishReason::Error);
  EXPECT_EQ(a.finish->failure->code, Code::Device);
  is_broken = false;
  EXPECT_EQ(answer(*s.engine, r).text, "aa");
}

std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  std::mt19937 rng(42);
  for (int i = 0; i < 7; ++i) {
    Request r;
    for (int t = 0; t < 3 + 9 * i; ++t) r.prompt.push_back(int32_t(rng() % 256));
    r.max_tokens = 5 + 3 * i;
    r.sampling.seed = uint64_t(1000 + i);
    r.sampling.temperature = i % 3 ? 0.9 : 0;
    r.sampling.top_k = i % 2 ? 20 : 0;
    r.sampling.top_p = i % 4 ? 0.9 : 1;
    r.sampling.repetition_penalty = i == 3 ? 1.3 : 1;
    r.sampling.xtc_probability = i == 5 ? 0.7 : 0;
    requests.push_back(r);
  }
  return requests;
}

// Seen to fail with the draws of all sequences counted by one counter.
TEST(Engine, ABatchGivesEachRequestWhatItGetsAlone) {
  std::vector<Answer> alone;
  for (const Request& r : mixed_requests()) {
    Scripted s = make_engine(kWords, hashed_logits);
    alone.push_back(answer(*s.engine, r));
  }
  for (int64_t parallel : {2, 3, 7}) {
    Scripted s = make_engine(kWords, hashed_logits, {.parallel = parallel, .prefill_chunk = 16});
    std::vector<SequenceId> ids;
    for (const Request& r : mixed_requests()) ids.push_back(s.engine->submit(r));
    EXPECT_EQ(s.engine->n_waiting(), 7);
    auto answers = drain(*s.engine);
    EXPECT_GT(s.model->n_sequences_at_most, 1u);
    EXPECT_LE(s.model->n_sequences_at_most, size_t(parallel));
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(answers[ids[i]].tokens, alone[i].tokens) << "parallel " << parallel << " request " << i;
      EXPECT_EQ(answers[ids[i]].text, alone[i].text);
    }
  }
}

// Seen to fail with the whole prompt taken over, so that no row is left for its logits.
TEST(Engine, AContinuedPromptIsNotReadAgainAndGivesTheSameAnswer) {
  Scripted warm = make_engine(kWords, hashed_logits);
  Request r = greedy_request({70, 71, 72});
  r.max_tokens = 4;
  const Answer first = answer(*warm.engine, r);
  Request next = r;
  next.prompt.insert(next.prompt.end(), first.tokens.begin(), first.tokens.end());
  next.prompt.push_back(73);
  const int64_t before = warm.model->n_rows;
  const Answer second = answer(*warm.engine, next);
  EXPECT_EQ(second.finish->usage.cached_tokens, 6) << "the last token of an answer cut by length was not fed";
  EXPECT_EQ(warm.model->n_rows - before, 2 + 3);
  Scripted cold = make_engine(kWords, hashed_logits);
  EXPECT_EQ(answer(*cold.engine, next).tokens, second.tokens);
  // A prompt that differs later keeps what stands before the difference.
  next.prompt[2] = 99;
  const Answer other = answer(*warm.engine, next);
  EXPECT_EQ(other.finish->usage.cached_tokens, 2);
  Scripted cold2 = make_engine(kWords, hashed_logits);
  EXPECT_EQ(answer(*cold2.engine, next).tokens, other.tokens);
  // The same prompt again: its last token is read once more, for its logits.
  EXPECT_EQ(answer(*warm.engine, next).tokens, other.tokens);
  EXPECT_EQ(answer(*warm.engine, next).finish->usage.cached_tokens, int64_t(next.prompt.size()) - 1);
}

// Seen to fail without the banned ids in sample_token.
TEST(Engine, IdsWithoutAPieceAreNeverSampled) {
  const auto fn = [](std::span<const int32_t>, std::span<float> row) {
    row[row.size() - 1] = 50;  // the model's vocabulary is padded
    row[97] = 1;
  };
  Scripted s = make_engine(kWords, fn, {}, kWords.size() + 20);
  Request r = greedy_request();
  r.max_tokens = 2;
  EXPECT_EQ(answer(*s.engine, r).text, "aa");
  r.sampling.temperature = 1;
  r.sampling.top_k = 1;
  EXPECT_EQ(answer(*s.engine, r).text, "aa");
}

TEST(Engine, ALongPromptTellsItsProgress) {
  Scripted s = make_engine(kWords, hashed_logits, {.prefill_chunk = 4});
  Request r = greedy_request(std::vector<int32_t>(10, 65));
  r.max_tokens = 1;
  s.engine->submit(r);
  EXPECT_EQ(s.engine->step()[0].prompt_done, 4);
  EXPECT_EQ(s.engine->step()[0].prompt_done, 8);
  const StepEvent last = s.engine->step()[0];
  EXPECT_EQ(last.prompt_done, 10);
  EXPECT_TRUE(last.finish);
}

}  // namespace
}  // namespace loft
