// The real program without a model: the counters of simulated passes, which are those of a published experiment, and
// the exit statuses of loft routes and loft compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "engine/scripted_engine.h"
#include "tests/program.h"

namespace loft {
namespace {

using program::Outcome;
using scripted::TemporaryFolder;
using testing::HasSubstr;

Outcome loft_program(std::vector<std::string> args) {
  return program::run(LOFT_BINARY, std::move(args));
}

void expect_failure(const Outcome& o, int status, const std::string& why) {
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_FALSE(o.by_signal);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, HasSubstr(why));
}

/// The counters of the cache that are not 0.
using Counters = std::map<std::string, uint64_t>;
Counters simulated(std::vector<std::string> args) {
  args.insert(args.begin(), {"routes", "--json", "--policy", "published", "--simulate"});
  const Outcome o = loft_program(args);
  EXPECT_EQ(o.status, 0) << o.err;
  Counters counters;
  const Json j = parse_json(o.out, "stdout");
  EXPECT_EQ(j["schema"], "loft.routes/1");
  EXPECT_EQ(j["device"], "gfx1151");
  for (const auto& [name, value] : j["qmm"]["cache"].items()) {
    if (value != 0u) counters[name] = value.get<uint64_t>();
  }
  return counters;
}

// 34 layers, of which five products a layer are above the ceiling of the fused kernel, in two passes of 2048 rows.
TEST(E2eRoutes, CountersOfGemma3AreThoseOfThePublishedExperiment) {
  EXPECT_EQ(simulated({"gemma-3-4b"}), (Counters{{"bypasses", 340}}));
  EXPECT_EQ(simulated({"gemma-3-4b", "--qmm-dequant-cache", "lru"}), (Counters{{"bypasses", 340}}));
  EXPECT_EQ(simulated({"gemma-3-4b", "--qmm-above-ceiling", "cache", "--qmm-dequant-cache", "lru"}),
            (Counters{{"misses", 340}, {"inserts", 340}, {"evictions", 334}, {"entries", 6}, {"bytes", 241172480}}));
}

TEST(E2eRoutes, CountersOfLlama8BInF16) {
  EXPECT_EQ(simulated({"llama-3.1-8b", "--dtype", "f16", "--qmm-dequant-cache", "lru"}),
            (Counters{{"misses", 320}, {"inserts", 320}, {"evictions", 318}, {"entries", 2}, {"bytes", 234881024}}));
  EXPECT_EQ(simulated({"llama-3.1-8b", "--dtype", "f16", "--qmm-dequant-cache", "auto"}),
            (Counters{{"bypasses", 320}}));
}

TEST(E2eRoutes, UnknownNamesComeWithTheNearestKnownOne) {
  expect_failure(loft_program({"routes", "--device", "gfx1152"}), 2, "no described device 'gfx1152'; did you mean ");
  expect_failure(loft_program({"routes", "--device", "gfx11511"}), 2, "did you mean gfx1151?");
  expect_failure(loft_program({"routes", "gemma-3-4"}), 3, "no model shape 'gemma-3-4'; did you mean gemma-3-4b?");
  expect_failure(loft_program({"routes", "--simulate", "llama-3.1-8"}), 3, "did you mean llama-3.1-8b?");
  expect_failure(loft_program({"routes", "--format", "affine9"}), 2, "affine9");
}

/// Two positions: the first is decided (gap 2), the second is not.
std::string trace(const std::string& first_ids, const std::string& second_ids) {
  return "# model\tm\n# chunks\t1\tchunk_tokens\t2\ttopk\t2\tprefill\t0\n0\t0\t7\t1.000000\t" + first_ids +
         "\t20.000000,18.000000\n0\t1\t7\t1.000000\t" + second_ids + "\t20.000000,19.500000\n";
}

class E2eCompare : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return (folder_.path() / name).string();
  }
  int status(std::vector<std::string> args) const {
    args.insert(args.begin(), "compare");
    return loft_program(args).status;
  }
  TemporaryFolder folder_;
  std::string reference_ = write("reference.tsv", trace("1,2", "1,2"));
};

TEST_F(E2eCompare, TheStatusIsTheVerdictThatWasAskedFor) {
  const std::string same = write("same.tsv", trace("1,2", "1,2"));
  const std::string near_tie = write("near_tie.tsv", trace("1,2", "2,1"));
  const std::string decided = write("decided.tsv", trace("2,1", "1,2"));
  EXPECT_EQ(status({reference_, same, "--fail-on", "bytes"}), 0);
  EXPECT_EQ(status({reference_, near_tie, "--fail-on", "decided"}), 0);
  EXPECT_EQ(status({reference_, near_tie, "--fail-on", "any"}), 1);
  EXPECT_EQ(status({reference_, decided}), 0) << "a report alone is no gate";
  EXPECT_EQ(status({reference_, decided, "--fail-on", "decided"}), 1);
  EXPECT_EQ(status({reference_, near_tie, "--fail-on", "decided", "--decided", "5"}), 6) << "nothing is decided";
  const Outcome json = loft_program({"compare", reference_, decided, "--json"});
  EXPECT_EQ(parse_json(json.out, "stdout")["decided_disagreed"], 1);
}

TEST_F(E2eCompare, TracesThatCannotBeComparedEndWithTheirOwnStatus) {
  const std::string other = write("other.tsv", "0\t0\t8\t1.000000\t1,2\t20.000000,18.000000\n");
  const std::string cut = write("cut.tsv", "0\t0\t7\t1.000000\t1,2\t20.0000");
  expect_failure(loft_program({"compare", reference_, other}), 2, "not comparable");
  expect_failure(loft_program({"compare", reference_}), 2, "CANDIDATE");
  expect_failure(loft_program({"compare", reference_, cut}), 3, "cut.tsv:1");
  expect_failure(loft_program({"compare", reference_, reference_ + "x"}), 3, "reference.tsvx");
}

}  // namespace
}  // namespace loft
