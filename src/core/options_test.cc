#include "core/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace loft {
namespace {

using testing::HasSubstr;

constexpr Positional kModelArgument[] = {{"MODEL", "folder", true}};
const Subcommand kCommand = {"run", kRun, "brief", kModelArgument, "", nullptr};

ParsedArgs parsed(std::vector<std::string> args, std::vector<std::string> environment = {}) {
  args.insert(args.begin(), "model");
  return parse_args(kCommand, args, environment);
}

std::string error_of(std::vector<std::string> args, std::vector<std::string> environment = {}) {
  try {
    parsed(std::move(args), std::move(environment));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    return e.what();
  }
  return "no error";
}

TEST(Options, DefaultsStand) {
  const ParsedArgs p = parsed({});
  EXPECT_EQ(p.options.prefill_chunk, 2048u);
  EXPECT_FALSE(p.options.quiet);
  EXPECT_FALSE(p.options.ctx_size.has_value());
  EXPECT_FALSE(p.has("prefill_chunk"));
  EXPECT_EQ(p.positionals, std::vector<std::string>{"model"});
}

TEST(Options, FlagBeatsVariableBeatsAlias) {
  const std::vector<std::string> environment = {"MLXCEL_PREFILL_CHUNK=64", "LOFT_PREFILL_CHUNK=128", "HOME=/"};
  EXPECT_EQ(parsed({}, {environment[0]}).options.prefill_chunk, 64u);
  EXPECT_EQ(parsed({}, environment).options.prefill_chunk, 128u);
  EXPECT_EQ(parsed({"--prefill-chunk", "256"}, environment).options.prefill_chunk, 256u);
  EXPECT_EQ(parsed({"--prefill-chunk=256"}).options.prefill_chunk, 256u);
}

TEST(Options, FurtherFlagsAndListsAndSwitches) {
  const ParsedArgs p = parsed({"-n", "5", "--stop", "a", "--stop", "b,c", "-q", "--raw=off", "-p", "-", "--temp", "0"});
  EXPECT_EQ(p.options.max_tokens, 5u);
  EXPECT_EQ(p.options.stop, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_TRUE(p.options.quiet);
  EXPECT_FALSE(p.options.raw);
  EXPECT_EQ(p.options.prompt, "-");
  EXPECT_EQ(p.options.temperature, 0.0);
}

// With CLI11's extra arguments allowed a flag takes the words behind its value as well.
TEST(Options, AFlagTakesOneValueAndLeavesThePositionals) {
  const std::vector<std::string> flags[] = {{"--prefill-chunk", "256"}, {"--stop", "a", "--stop", ""}, {"-q"}};
  for (std::vector<std::string> args : flags) {
    args.emplace_back("folder");
    EXPECT_EQ(parse_args(kCommand, args, {}).positionals, std::vector<std::string>{"folder"}) << args[0];
  }
  EXPECT_EQ(parsed({"--stop", "a", "--stop", ""}).options.stop, (std::vector<std::string>{"a", ""}));
}

TEST(Options, AMistakeNamesValueWantedAndTheNearMiss) {
  EXPECT_THAT(error_of({"--top-k", "12abc"}), HasSubstr("--top-k: found '12abc', wanted a whole number"));
  EXPECT_THAT(error_of({"--top-kk", "1"}), HasSubstr("did you mean --top-k?"));
  EXPECT_THAT(error_of({}, {"LOFT_TOP_KK=1"}), HasSubstr("did you mean LOFT_TOP_K?"));
  EXPECT_THAT(error_of({}, {"LOFT_PREFILL_CHUNK=0"}), HasSubstr("LOFT_PREFILL_CHUNK: found '0'"));
  EXPECT_THAT(error_of({"--dtype", "int8"}), HasSubstr("one of auto|f32|f16|bf16"));
  EXPECT_THAT(error_of({"--min-p", "1.5"}), HasSubstr("0..1"));
  EXPECT_THAT(error_of({"--temp", "nan"}), HasSubstr("finite"));
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("one argument too many"));
  EXPECT_THROW(parse_args(kCommand, {}, {}), Error);
}

TEST(Options, ABadAliasKeepsTheDefault) {
  EXPECT_EQ(parsed({}, {"MLXCEL_PREFILL_CHUNK=abc"}).options.prefill_chunk, 2048u);
  EXPECT_EQ(parsed({}, {"MLXCEL_PREFILL_CHUNK="}).options.prefill_chunk, 2048u);
}

// Seen to fail: split gives the words after "--" to CLI11.
TEST(Options, TheWordsOfAnotherProgramAreLeftAlone) {
  constexpr Positional kRest[] = {{"-- COMMAND", "program", false, true}};
  const Subcommand guard = {"guard", kGuard, "brief", kRest, "", nullptr};
  const std::vector<std::string> args = {"--idle-secs", "08",   "--", "run",    "--idle-secs",
                                         "5",           "-x=1", "--", "--help", ""};
  const ParsedArgs p = parse_args(guard, args, {});
  EXPECT_EQ(p.options.idle_secs, 8u);
  EXPECT_EQ(p.ask, ParsedArgs::Ask::Run);
  EXPECT_EQ(p.rest, (std::vector<std::string>{"run", "--idle-secs", "5", "-x=1", "--", "--help", ""}));
  EXPECT_TRUE(p.positionals.empty());
  try {
    parse_args(guard, std::vector<std::string>{"sleep", "1"}, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'sleep' is one argument too many"));
  }
}

TEST(Options, BytesTakeUnitsAndRefuseOverflow) {
  EXPECT_EQ(parsed({"--memory-limit", "2G"}).options.memory_limit, uint64_t(2) << 30);
  EXPECT_EQ(parsed({"--memory-limit", "512k"}).options.memory_limit, 512u << 10);
  EXPECT_THAT(error_of({"--memory-limit", "99999999999999999999"}), HasSubstr("memory-limit"));
  EXPECT_THAT(error_of({"--memory-limit", "17179869184G"}), HasSubstr("memory-limit"));
}

TEST(Options, ARunTakesEveryOptionOfQuantizedProducts) {
  const std::vector<std::vector<std::string>> given = {{"--qmm-fused", "force"},
                                                       {"--qmm-fused-max-m", "64"},
                                                       {"--qmm-dequant-gemm=off"},
                                                       {"--qmm-dequant-m-threshold", "9"},
                                                       {"--qmm-dequant-cache", "lru"},
                                                       {"--qmm-dequant-cache-size", "3"},
                                                       {"--qmm-stats"},
                                                       {"--qmm-dequant-cache-max-bytes", "0"},
                                                       {"--qmm-panel-bytes", "64K"},
                                                       {"--qmm-above-ceiling", "cache"},
                                                       {"--qmm-policy", "published"},
                                                       {"--policy", "loft"},
                                                       {"--qmm-route-as", "gfx1151"},
                                                       {"--dtype", "bf16"},
                                                       {"--device", "auto"},
                                                       {"--qmm-kernel", "qmm_any_f32_scalar"},
                                                       {"--qmm-activations", "f32"},
                                                       {"--cpu-isa", "scalar"},
                                                       {"--force-low-cu"},
                                                       {"--prefill-chunk", "7"},
                                                       {"--memory-limit", "1G"},
                                                       {"--cache-limit", "0"},
                                                       {"--explain-routes"}};
  for (const std::vector<std::string>& args : given) {
    const ParsedArgs p = parsed(args);
    EXPECT_EQ(std::count(p.sources.begin(), p.sources.end(), Source::Flag), 1) << args[0];
    EXPECT_TRUE(p.positionals == std::vector<std::string>{"model"}) << args[0];
  }
}

TEST(Options, EveryRowHasItsOwnNamesAndADefaultItAccepts) {
  std::vector<std::string> seen;
  for (const OptionRow& row : option_rows()) {
    seen.push_back(row.flag);
    const std::string shown = row.show(Options{});
    Options options;
    if (shown != "unset" && !shown.empty()) {
      EXPECT_TRUE(row.set(options, shown)) << row.name;
    }
    EXPECT_NE(std::string(row.help), "") << row.name;
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

// Seen to fail: without spelling them out, CLI11 reads -pg as -p g.
TEST(Options, FlagsOfTwoLettersAndPositionsThatRepeat) {
  constexpr Positional kMany[] = {{"MODEL", "folder", false, false, true}};
  const Subcommand bench = {"bench", kBench, "brief", kMany, "", nullptr};
  const std::vector<std::string> args = {"a", "-pg", "512,128", "b", "-p", "7", "-np=2", "c", "-pg=1,2"};
  const ParsedArgs p = parse_args(bench, args, {});
  EXPECT_EQ(p.positionals, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(p.options.prompt_gen, (std::vector<std::string>{"512,128", "1,2"}));
  EXPECT_EQ(p.options.n_prompt, std::vector<std::string>{"7"});
  EXPECT_EQ(p.options.n_parallel, std::vector<std::string>{"2"});
  const auto all = [](const OptionRow&) { return true; };
  const std::vector<std::string> given = given_flags(p, all);
  const ParsedArgs again = parse_args(bench, given, {});
  EXPECT_EQ(given_flags(again, all), given);
  EXPECT_EQ(again.options.prompt_gen, p.options.prompt_gen);
}

// Seen to fail: without allow_extra_args(false) the model was taken for a second value of -n.
TEST(Options, APositionMayStandBehindAnOption) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{{"-n", "5", "m"},
                                                                                    {"--max-tokens=5", "m"},
                                                                                    {"--stop", "x", "-n", "5", "m"},
                                                                                    {"-n", "5", "--stop", "x", "m"}}) {
    const ParsedArgs p = parse_args(kCommand, args, {});
    EXPECT_EQ(p.positionals, std::vector<std::string>{"m"});
    EXPECT_EQ(p.options.max_tokens, 5u);
  }
}

TEST(Options, GivenFlagsSayTheSameAgain) {
  const ParsedArgs p =
      parsed({"--stop", "a b", "--stop=c", "--raw", "--memory-limit", "2K", "--temp", "0.25"}, {"LOFT_TOP_K=3"});
  const std::vector<std::string> given = given_flags(p, [](const OptionRow&) { return true; });
  EXPECT_EQ(given, (std::vector<std::string>{"--memory-limit=2048", "--raw=on", "--stop=a b", "--stop=c",
                                             "--temperature=0.25"}));
}

}  // namespace
}  // namespace loft
