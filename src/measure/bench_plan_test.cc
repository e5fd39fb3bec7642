#include "measure/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/bench_lists.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<int64_t>;

Numbers numbers(std::vector<std::string> texts) {
  return parse_numbers("--n-prompt", texts, 0, 1000);
}

TEST(BenchLists, NumbersRangesStepsFactorsAndRepeats) {
  EXPECT_EQ(numbers({"512"}), Numbers{512});
  // Mutant: bench_list_end (1 2 4 5).
  EXPECT_EQ(numbers({"1-8*2,5"}), (Numbers{1, 2, 4, 8, 5}));
  EXPECT_EQ(numbers({"0"}), Numbers{0});
  EXPECT_EQ(numbers({"3-5", "7"}), (Numbers{3, 4, 5, 7}));
  EXPECT_EQ(numbers({"100-400+150"}), (Numbers{100, 250, 400}));
  EXPECT_EQ(numbers({"1-10*3"}), (Numbers{1, 3, 9}));
}

TEST(BenchLists, BadFormsAreRefusedByName) {
  for (const char* bad :
       {"", "a", "1,", "1-", "-3", "5-3", "1-8*1", "0-8*2", "1-8*", "1-8+0", "1001", "1 2", "1-8*2*2"}) {
    EXPECT_THAT(error_of([&] { numbers({bad}); }), HasSubstr("--n-prompt: found '")) << bad;
  }
  EXPECT_THAT(error_of([] { parse_numbers("-d", std::vector<std::string>{"0-20000"}, 0, 1 << 24); }),
              HasSubstr("more than 10000"));
  EXPECT_THAT(error_of([] { parse_pairs("-pg", std::vector<std::string>{"512"}, 1, 1000); }), HasSubstr("a pair"));
  EXPECT_THAT(error_of([] { parse_shapes("--shape", std::vector<std::string>{"4096"}); }), HasSubstr("4096x4096"));
}

TEST(BenchLists, WordsKeepQuotedBlanks) {
  EXPECT_THAT(split_words("--arm", " -t 2  --opt 'a b'\"c d\" ''"), ElementsAre("-t", "2", "--opt", "a bc d", ""));
  EXPECT_THAT(split_words("--arm", ""), ElementsAre());
  EXPECT_THAT(error_of([] { split_words("--arm", "'a"); }), HasSubstr("a quote without its end"));
}

std::vector<std::string> names(const Options& o) {
  std::vector<std::string> out;
  for (const BenchTest& t : plan_tests(o)) out.push_back(test_name(t));
  return out;
}

TEST(BenchPlan, TestsOfTheDefaultsOfListsAndOfPairs) {
  Options o;
  EXPECT_THAT(names(o), ElementsAre("pp512", "tg128"));
  o.n_depth = {"0,512"};
  o.n_gen = {"0"};
  EXPECT_THAT(names(o), ElementsAre("pp512", "pp512 @ d512"));
  Options pairs;
  pairs.prompt_gen = {"2048,128", "512,128"};
  EXPECT_THAT(names(pairs), ElementsAre("pp2048+tg128", "pp512+tg128"));
  pairs.n_prompt = {"7"};
  EXPECT_THAT(names(pairs), ElementsAre("pp7", "pp2048+tg128", "pp512+tg128"));
  o.n_prompt = {"0"};
  EXPECT_THAT(error_of([&] { plan_tests(o); }), HasSubstr("nothing to measure"));
  o.n_prompt = {"tell me a story"};
  EXPECT_THAT(error_of([&] { plan_tests(o); }), HasSubstr("--prompt-file"));
}

TEST(BenchPlan, GroupsAreEveryCombinationAndAnAxisIsAnOption) {
  Options o;
  o.n_batch = {"64,128"};
  o.n_threads = {"1,2"};
  o.opt = {"qmm-activations=a16,f32"};
  const BenchPlan plan = plan_bench(o, {"a", "b"});
  ASSERT_EQ(plan.groups.size(), 16u);
  EXPECT_EQ(plan.groups[0].model, "a");
  EXPECT_EQ(plan.groups[1].opt, (std::vector<std::pair<std::string, std::string>>{{"qmm-activations", "f32"}}));
  EXPECT_EQ(plan.groups[15].n_batch, 128);
  EXPECT_EQ(plan.groups[15].n_threads, 2);
  o.opt = {"qmm-activation=a16"};
  EXPECT_THAT(error_of([&] { plan_bench(o, {"a"}); }), HasSubstr("did you mean qmm-activations?"));
  o.opt = {"qmm-activations=a17"};
  EXPECT_THAT(error_of([&] { plan_bench(o, {"a"}); }), HasSubstr("found 'a17'"));
  o.opt = {"qmm-activations"};
  EXPECT_THAT(error_of([&] { plan_bench(o, {"a"}); }), HasSubstr("NAME=VALUE"));
  o.opt = {};
  o.n_prompt = {"1-3000"};
  EXPECT_THAT(error_of([&] { plan_bench(o, {"a"}); }), HasSubstr("at most 10000"));
}

}  // namespace
}  // namespace loft
