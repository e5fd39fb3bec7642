#include "measure/bench_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "measure/bench_lists.h"

namespace loft {
namespace {

constexpr int64_t kMostTokens = 1 << 24;

using Axis = std::pair<std::string, std::vector<std::string>>;  // option, values

// An axis becomes a flag of the process that measures, so it must be an option that loft bench passes on.
Axis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    fail(Code::BadRequest, "--opt: found '{}', wanted NAME=VALUE,VALUE", text);
  std::string name = text.substr(0, equals);
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> known;
  for (const OptionRow& row : option_rows()) {
    if ((row.where & kBench) == 0 || (row.where & kRun) == 0 || row.is_list) continue;
    known.push_back(row.flag.substr(2));
    if (row.flag.substr(2) != name) continue;
    Axis axis{name, split_text(text.substr(equals + 1), ',')};
    for (const std::string& value : axis.second) {
      Options ignored;
      if (!row.set(ignored, value)) fail(Code::BadRequest, "--opt {}: found '{}', wanted {}", name, value, row.wanted);
    }
    return axis;
  }
  const std::string near = nearest_name(name, known);
  fail(Code::BadRequest, "--opt: no engine option '{}'{}", name,
       near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

std::vector<int64_t> numbers_or(std::string_view flag, const std::vector<std::string>& texts, int64_t lo,
                                std::vector<int64_t> otherwise) {
  return texts.empty() ? otherwise : parse_numbers(flag, texts, lo, kMostTokens);
}

// Each group once for each value of the axis.
template <class Value, class Set>
void multiply(std::vector<BenchGroup>& groups, const std::vector<Value>& values, const Set& set) {
  std::vector<BenchGroup> out;
  for (const BenchGroup& group : groups) {
    for (const Value& value : values) {
      out.push_back(group);
      set(out.back(), value);
    }
  }
  groups = std::move(out);
}

}  // namespace

std::string test_name(const BenchTest& t) {
  std::string name;
  if (t.n_prompt > 0) name = fmt::format("pp{}", t.n_prompt);
  if (t.n_gen > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", t.n_gen);
  return t.n_depth > 0 ? fmt::format("{} @ d{}", name, t.n_depth) : name;
}

std::vector<BenchTest> plan_tests(const Options& o) {
  for (const std::string& text : o.n_prompt) {
    if (text.find_first_of("0123456789") != 0)
      fail(Code::BadRequest, "--n-prompt: found '{}', wanted numbers of tokens; text goes to --prompt-file", text);
  }
  const bool has_pairs = !o.prompt_gen.empty();
  std::vector<int64_t> one_prompt = {512}, one_gen = {128}, none;
  const std::vector<int64_t> prompts = numbers_or("--n-prompt", o.n_prompt, 0, has_pairs ? none : one_prompt);
  const std::vector<int64_t> gens = numbers_or("--n-gen", o.n_gen, 0, has_pairs ? none : one_gen);
  const auto pairs = parse_pairs("--prompt-gen", o.prompt_gen, 1, kMostTokens);
  std::vector<BenchTest> tests;
  for (const int64_t depth : numbers_or("--n-depth", o.n_depth, 0, {0})) {
    for (const int64_t p : prompts) {
      if (p > 0) tests.push_back({.n_prompt = p, .n_depth = depth});
    }
    for (const int64_t n : gens) {
      if (n > 0) tests.push_back({.n_gen = n, .n_depth = depth});
    }
    for (const auto& [p, n] : pairs) tests.push_back({.n_prompt = p, .n_gen = n, .n_depth = depth, .joint = true});
  }
  if (tests.empty()) fail(Code::BadRequest, "nothing to measure: --n-prompt and --n-gen are both 0");
  return tests;
}

BenchPlan plan_bench(const Options& o, const std::vector<std::string>& models) {
  BenchPlan plan{.tests = plan_tests(o), .groups = {}};
  for (const std::string& model : models) plan.groups.push_back({.model = model});
  multiply(plan.groups, numbers_or("--n-batch", o.n_batch, 1, {int64_t(o.prefill_chunk)}),
           [](BenchGroup& g, int64_t v) { g.n_batch = v; });
  multiply(plan.groups, numbers_or("--n-parallel", o.n_parallel, 1, {int64_t(o.parallel.value_or(1))}),
           [](BenchGroup& g, int64_t v) { g.n_parallel = v; });
  multiply(plan.groups, numbers_or("--n-threads", o.n_threads, 1, {int64_t(o.threads.value_or(0))}),
           [](BenchGroup& g, int64_t v) { g.n_threads = v; });
  for (const std::string& text : o.opt) {
    const Axis axis = parse_axis(text);
    multiply(plan.groups, axis.second, [&](BenchGroup& g, const std::string& v) { g.opt.emplace_back(axis.first, v); });
    if (plan.groups.size() > kMaxBenchTests) break;
  }
  if (plan.groups.size() * plan.tests.size() > kMaxBenchTests) {
    fail(Code::BadRequest, "{} tests, at most {}", plan.groups.size() * plan.tests.size(), kMaxBenchTests);
  }
  return plan;
}

}  // namespace loft
