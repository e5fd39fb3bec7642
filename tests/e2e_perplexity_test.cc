// loft perplexity as a user runs it, on tiny seeded checkpoints. Its figures are held against an independent script by
// tests/python/measure_compare.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_text_model.h"

namespace loft {
namespace {

using program::Outcome;
using testing::HasSubstr;

const TinyTextModel& gemma() {
  static const TinyTextModel model(tiny_gemma(), true, DType::BF16, 1200);
  return model;
}

Json json_of(const Outcome& o) {
  EXPECT_EQ(o.status, 0) << o.err;
  return parse_json(o.out, "stdout");
}

Json perplexity_json_of(std::vector<std::string> args) {
  args.push_back("--json");
  return json_of(gemma().run("perplexity", std::move(args)));
}

TEST(E2ePerplexity, TheLineNamesItsMode) {
  const Outcome o = gemma().run("perplexity", {"-c", "100"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.out, testing::MatchesRegex("mlx L=100 windows=12 tokens=1188 ppl=[0-9.]+ \\+/- [0-9.]+ \\(tokens\\) "
                                           "\\+/- [0-9.]+ \\(windows\\) nll=[0-9.]+\n"));
  EXPECT_THAT(o.err, HasSubstr("8/12 66% ppl "));
  EXPECT_THAT(o.err, HasSubstr(" tok/s"));
  const Outcome quiet = gemma().run("perplexity", {"-c", "100", "-q"});
  EXPECT_EQ(quiet.out, o.out);
  EXPECT_EQ(quiet.err, "");
}

TEST(E2ePerplexity, ModesCountTheirTokens) {
  struct Case {
    const char* mode;
    int windows, tokens;
  };
  // 1201 tokens with the begin token, 1200 without.
  const Case cases[] = {{"mlx", 12, 12 * 99}, {"chunk", 12, 12 * 100}, {"llama", 12, 12 * 49}, {"stride", 23, 23 * 50}};
  for (const Case& c : cases) {
    const Json j = perplexity_json_of({"-c", "100", "--mode", c.mode});
    EXPECT_EQ(j["mode"], c.mode);
    EXPECT_EQ(j["windows"], c.windows) << c.mode;
    EXPECT_EQ(j["tokens"], c.tokens) << c.mode;
    EXPECT_EQ(j["status"], "complete");
  }
  EXPECT_EQ(perplexity_json_of({"-c", "100", "--max-windows", "3"})["windows"], 3);
  EXPECT_EQ(perplexity_json_of({"-c", "100", "--max-windows", "-1"})["windows"], 12);
  EXPECT_EQ(perplexity_json_of({"-c", "100", "--mode", "stride", "--stride", "100"})["tokens"], 12 * 99);
}

TEST(E2ePerplexity, BatchesDoNotMatter) {
  const Json one = perplexity_json_of({"-c", "60", "--batch-size", "1"});
  for (const char* batch : {"3", "8"}) {
    const Json j = perplexity_json_of({"-c", "60", "--batch-size", batch});
    EXPECT_EQ(j["nll"], one["nll"]);
    EXPECT_EQ(j["window_nll"], one["window_nll"]);
    EXPECT_NE(j["pass_rows"], one["pass_rows"]);
  }
  EXPECT_EQ(one["pass_rows"][0], 59);
}

TEST(E2ePerplexity, GivenWindowsAreThoseOfATextCutAlike) {
  const std::string text = some_text(1200);
  std::string lines;
  for (size_t w = 0; w < 12; ++w) {
    std::vector<int> ids(text.begin() + std::ptrdiff_t(100 * w), text.begin() + std::ptrdiff_t(100 * w + 100));
    lines += dump_json(Json(ids)) + "\n";
  }
  write_text_file(gemma() / "windows.jsonl", lines);
  const Json given =
      json_of(gemma().run("perplexity", {"--windows", (gemma() / "windows.jsonl").string(), "--json"}, {}, false));
  EXPECT_EQ(given["nll"], perplexity_json_of({"-c", "100"})["nll"]);
  EXPECT_EQ(given["length"], 100);
}

TEST(E2ePerplexity, ATraceGivesItsOwnFigure) {
  const std::string file = (gemma() / "trace.tsv").string();
  const Json trace = json_of(gemma().run("trace", {"50", "3", "--out", file, "--json"}));
  const Json j = json_of(program::run(LOFT_BINARY, {"perplexity", "--from-trace", file, "--json"}));
  EXPECT_EQ(j["mode"], "trace");
  EXPECT_EQ(j["windows"], 3);
  EXPECT_EQ(j["tokens"], 150);
  EXPECT_NEAR(j["nll"].get<double>(), trace["mean_nll"].get<double>(), 1e-6);  // the file has six decimals
  const Outcome o = program::run(LOFT_BINARY, {"perplexity", "--from-trace", file});
  EXPECT_THAT(o.out, testing::StartsWith("trace L=50 windows=3 tokens=150 ppl="));
}

TEST(E2ePerplexity, AgainstAnotherRunOfTheSameModel) {
  const Json same = perplexity_json_of({"-c", "100", "--against", "threads=1"});
  EXPECT_EQ(same["divergence"]["kl"]["max"], 0.0);
  EXPECT_EQ(same["divergence"]["same_top"], 12 * 99);
  for (const char* kv_dtype : {"bf16", "int8"}) {
    const Json other = perplexity_json_of({"-c", "100", "--kv-dtype", kv_dtype, "--against", "kv-dtype=f32"});
    EXPECT_GT(other["divergence"]["kl"]["mean"], 0.0) << kv_dtype;
    EXPECT_LT(other["divergence"]["kl"]["mean"], 0.01) << kv_dtype;
    EXPECT_NE(other["nll"], other["divergence"]["reference"]["nll"]);
    EXPECT_EQ(other["divergence"]["reference"]["nll"], perplexity_json_of({"-c", "100", "--kv-dtype", "f32"})["nll"]);
  }
}

TEST(E2ePerplexity, CtrlCPrintsWhatIsDone) {
  const TinyTextModel m(tiny_gemma(), true, DType::BF16, 40000);
  program::Input input;
  bool is_sent = false;
  input.on_error_output = [&](pid_t child, const std::string&) {
    if (!is_sent) kill(child, SIGINT);
    is_sent = true;
  };
  const Outcome o = m.run("perplexity", {"-c", "400", "--max-windows", "-1", "--batch-size", "1"}, input);
  EXPECT_EQ(o.status, 130);
  EXPECT_FALSE(o.by_signal);
  EXPECT_THAT(o.out, testing::EndsWith(" partial\n"));
  EXPECT_THAT(o.out, testing::Not(HasSubstr("windows=100 ")));
}

TEST(E2ePerplexity, AWindowThatIsNotFiniteIsNamed) {
  TinyTextModel m(untied(tiny_llama()), false);
  edit_tensors(m.model, [](Tensors& tensors) {
    OwnedTensor& scales = tensors.at("model.embed_tokens.scales");
    scales.bytes['Q' * scales.shape[1] * 2 + 1] = 0x7e;
  });
  std::string text = some_text(400);
  text[137] = 'Q';
  write_text_file(m.text, text);
  const Outcome o = m.run("perplexity", {"-c", "50"});
  EXPECT_EQ(o.status, 5);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, HasSubstr("window 2: a logit is not finite"));
}

TEST(E2ePerplexity, MistakesEndWithTheirStatus) {
  const auto fails = [](std::vector<std::string> args, int status, const std::string& why, bool with_text = true) {
    const Outcome o = gemma().run("perplexity", std::move(args), {}, with_text);
    EXPECT_EQ(o.status, status) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_THAT(o.err, HasSubstr(why));
  };
  fails({"-c", "1"}, 2, "found 1, wanted at least 2");
  fails({"-c", "513"}, 2, "wanted at most the model's 512");
  fails({"-c", "100", "--mode", "stride", "--stride", "101"}, 2, "--stride: found 101, wanted at most 100");
  fails({"--stride", "10"}, 2, "without --mode stride");
  fails({"--mode", "hf"}, 2, "wanted one of mlx|chunk|llama|stride");
  fails({"--max-windows", "0"}, 2, "wanted -1 for all");
  fails({"--from-trace", "x"}, 2, "wanted the trace alone");
  fails({"--windows", "x"}, 2, "wanted one of them");
  fails({"--windows", "x", "--mode", "chunk"}, 2, "wanted mlx or llama", false);
  fails({"--windows", "absent.jsonl"}, 3, "absent.jsonl", false);
  fails({}, 2, "wanted TEXT or --windows", false);
  fails({"--against", "kv-dtype"}, 2, "wanted kv_dtype=one of");
  fails({"--against", "top-k=3"}, 2, "no option top_k");
  fails({"-c", "512", "--mode", "llama", "--max-windows", "1", "extra"}, 2, "one argument too many");
  write_text_file(gemma() / "short.txt", "abc");
  const Outcome o = program::run(LOFT_BINARY, {"perplexity", gemma().model.string(), (gemma() / "short.txt").string()});
  EXPECT_EQ(o.status, 3);
  EXPECT_THAT(o.err, HasSubstr("text too short: 3 tokens, wanted at least 512"));
  EXPECT_EQ(program::run(LOFT_BINARY, {"perplexity"}).status, 2);
  EXPECT_EQ(program::run(LOFT_BINARY, {"perplexity", "--from-trace", "absent.tsv"}).status, 3);
}

}  // namespace
}  // namespace loft
