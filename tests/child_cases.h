// Tests only: cases that need a process of their own, since options are read from the environment once. The test
// program starts itself again on one case at a time, without inherited settings and with the case's own; a case has
// passed only when the child ends with 0 and its line CASE-COMPLETE stands on stdout, so neither a crash nor a skip can
// pass.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "core/options.h"
#include "tests/program.h"

namespace loft::child_cases {

struct Case {
  const char* name;
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::vector<std::string> warning;      // parts of the one line on stderr; empty: no line
  void (*body)();
};

constexpr const char* kVariable = "CHILD_CASE";
constexpr unsigned kLimitSeconds = 180;

/// The body of the test DISABLED_Child.Case, which runs in the child.
inline void run_named(std::span<const Case> cases) {
  const char* const name = std::getenv(kVariable);
  ASSERT_NE(name, nullptr) << "started without a case";
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return std::string(c.name) == name; });
  ASSERT_NE(found, cases.end()) << name;
  found->body();
  if (!::testing::Test::HasFailure() && !::testing::Test::IsSkipped()) fmt::print("CASE-COMPLETE {}\n", name);
}

inline void run_in_child(const Case& c) {
  SCOPED_TRACE(c.name);
  program::Input input;
  input.without_settings = true;
  input.limit_s = kLimitSeconds;
  input.environment = c.environment;
  input.environment.push_back(fmt::format("{}={}", kVariable, c.name));
  const program::Outcome o =
      program::run("/proc/self/exe", {"--gtest_filter=DISABLED_Child.Case", "--gtest_also_run_disabled_tests"}, input);
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_THAT(o.out, ::testing::HasSubstr(fmt::format("CASE-COMPLETE {}\n", c.name))) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), c.warning.empty() ? 0 : 1) << o.err;
  for (const std::string& part : c.warning) EXPECT_THAT(o.err, ::testing::HasSubstr(part));
}

inline void run_all(std::span<const Case> cases) {
  for (const Case& c : cases) run_in_child(c);
}

/// The options of `loft run` as this process's environment gives them.
inline Options options_of_environment() {
  static constexpr Positional kModelArgument[] = {{"MODEL", "folder", true}};
  const Subcommand command = {"run", kRun, "", kModelArgument, "", nullptr};
  const std::vector<std::string> args = {"model"};
  return parse_args(command, args, process_environment()).options;
}

}  // namespace loft::child_cases
