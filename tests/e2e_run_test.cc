// The real program on tiny seeded checkpoints: statuses, JSON, options, signals. Nothing half-written on stdout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "engine/scripted_engine.h"
#include "model/synth.h"
#include "tests/program.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using program::Outcome;
using scripted::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTinyConfig = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 288,
  "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true})";

/// One tiny model for all tests of the process.
const fs::path& tiny_model() {
  static const TemporaryFolder folder;
  static const fs::path path = [] {
    SynthRequest request;
    request.config_json = kTinyConfig;
    request.format = {.kind = QuantKind::Affine, .bits = 4, .group = 32};
    request.dtype = DType::F16;
    request.seed = 5;
    request.max_shard_bytes = 40000;  // several shards, so that one of them can be cut
    synth_checkpoint(request, folder.path() / "tiny");
    return folder.path() / "tiny";
  }();
  return path;
}

Outcome loft_program(std::vector<std::string> args, const program::Input& input = {}) {
  return program::run(LOFT_BINARY, std::move(args), input);
}

/// loft run on the tiny model, raw and greedy unless told otherwise.
Outcome run_tiny(std::vector<std::string> args, const program::Input& input = {}) {
  args.insert(args.begin(), {"run", tiny_model().string(), "--raw"});
  return loft_program(std::move(args), input);
}

Json json_of(const Outcome& o) {
  EXPECT_EQ(o.status, 0) << o.err;
  return parse_json(o.out, "stdout");
}

/// "why" is on stderr in one line, stdout is empty, and the status is the documented one.
void expect_failure(const Outcome& o, int status, const std::string& why) {
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_FALSE(o.by_signal);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, HasSubstr(why));
}

TEST(E2eRun, AnAnswerGoesToStdoutAndOneLineToStderr) {
  const Outcome o = run_tiny({"-p", "hello", "-n", "8", "--seed", "1"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.out, testing::EndsWith("\n"));
  EXPECT_THAT(o.err, HasSubstr("prompt "));
  EXPECT_THAT(o.err, HasSubstr("answer "));
  EXPECT_THAT(o.err, HasSubstr("peak memory"));
  const Outcome quiet = run_tiny({"-p", "hello", "-n", "8", "--seed", "1", "-q"});
  EXPECT_EQ(quiet.out, o.out);
  EXPECT_EQ(quiet.err, "");
}

TEST(E2eRun, TheJsonObjectHasItsKeys) {
  const Json j = json_of(run_tiny({"-p", "hello", "-n", "4", "--json", "--seed", "7"}));
  EXPECT_EQ(j["schema"], "loft.run/1");
  EXPECT_EQ(j["model"], tiny_model().string());
  EXPECT_EQ(j["tokens"].size(), 4u);
  EXPECT_TRUE(j["text"].is_string());
  EXPECT_EQ(j["finish_reason"], "length");
  EXPECT_TRUE(j["stop"].is_null());
  EXPECT_EQ(j["usage"]["prompt_tokens"], j["prompt_tokens"].size());
  EXPECT_EQ(j["usage"]["completion_tokens"], 4);
  for (const char* key : {"load_ms", "prefill_ms", "decode_ms", "prefill_tok_s", "decode_tok_s"}) {
    EXPECT_TRUE(j["timings"][key].is_number()) << key;
  }
  for (const char* key : {"active_bytes", "peak_bytes", "cache_bytes", "mapped_bytes"}) {
    EXPECT_TRUE(j["memory"][key].is_number_unsigned()) << key;
  }
  for (const char* phase : {"load", "prefill", "decode"}) {
    for (const char* key : {"active_bytes", "peak_bytes", "cache_bytes", "outside_bytes"}) {
      EXPECT_TRUE(j["memory"]["phases"][phase][key].is_number_unsigned()) << phase << " " << key;
    }
  }
  EXPECT_GT(j["memory"]["file_bytes"], 0);
  for (const char* key : {"routes", "cache", "kernels"}) EXPECT_TRUE(j["qmm"][key].is_object()) << key;
  for (const char* key : {"panel_high_water_bytes", "gemm_fallbacks"}) EXPECT_TRUE(j["qmm"][key].is_number()) << key;
  EXPECT_EQ(j["seed"], 7);
  EXPECT_FALSE(j.contains("logprobs"));
}

/// The published thresholds in a real pass: 40 rows of f16 are above the crossover of 36, the head's one row below.
TEST(E2eRun, ThePublishedPolicyRoutesAsAnotherDeviceAndSaysSo) {
  const std::vector<std::string> args = {"-p",           std::string(40, 'a'), "-n",      "1",  "--json",
                                         "--qmm-policy", "published",          "--dtype", "f16"};
  std::vector<std::string> explained = args;
  explained.emplace_back("--explain-routes");
  const Outcome o = run_tiny(explained);
  EXPECT_THAT(o.err, HasSubstr("qmm_affine_dequant_hipblaslt"));
  EXPECT_THAT(o.err, HasSubstr("decides the route"));
  EXPECT_THAT(o.err, HasSubstr("carries it out"));
  EXPECT_THAT(o.err, HasSubstr("* qmm_any_dequant_sgemm"));
  const Json routes = json_of(o)["qmm"]["routes"];
  EXPECT_EQ(routes["DequantGemm"], 10);
  EXPECT_EQ(routes["Gemv"], 1);
  // A chip with few compute units crosses at 16 rows already; by its own table the CPU does not cross at all.
  std::vector<std::string> few = {"-p", std::string(20, 'a'), "-n", "1", "--json", "--dtype", "f16"};
  EXPECT_EQ(json_of(run_tiny(few))["qmm"]["routes"]["DequantGemm"], 0);
  few.insert(few.end(), {"--qmm-route-as", "gfx1150"});
  EXPECT_EQ(json_of(run_tiny(few))["qmm"]["routes"]["DequantGemm"], 10);
  few.back() = "gfx1151";
  EXPECT_EQ(json_of(run_tiny(few))["qmm"]["routes"]["DequantGemm"], 0);
  few.emplace_back("--force-low-cu");
  EXPECT_EQ(json_of(run_tiny(few))["qmm"]["routes"]["DequantGemm"], 10);
}

TEST(E2eRun, ARouteAsThatIsUnknownStopsBeforeTheModelIsRead) {
  const std::vector<std::string> args = {"-p", "x", "--qmm-route-as"};
  const auto with = [&](std::vector<std::string> tail) {
    std::vector<std::string> all = args;
    all.insert(all.end(), tail.begin(), tail.end());
    return run_tiny(all);
  };
  expect_failure(with({"gfx1511"}), 2, "no described device 'gfx1511'; did you mean gfx1151?");
  expect_failure(with({"cpu-avx2", "--qmm-policy", "published"}), 2, "for AMD devices only");
  expect_failure(with({"gfx1151", "--qmm-policy", "loft"}), 2, "no thresholds of its own");
}

TEST(E2eRun, ASeedGivesTheSameAnswerAndARandomOneIsPrinted) {
  const std::vector<std::string> args = {"-p", "once", "-n", "12", "--json"};
  const auto with_seed = [&](const char* seed) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--seed", seed, "--temp", "1.5"});
    return json_of(run_tiny(all))["tokens"];
  };
  EXPECT_EQ(with_seed("3"), with_seed("3"));
  EXPECT_NE(with_seed("3"), with_seed("4"));
  const Json first = json_of(run_tiny(args)), second = json_of(run_tiny(args));
  EXPECT_TRUE(first["seed"].is_number_unsigned());
  EXPECT_NE(first["seed"], second["seed"]);
}

TEST(E2eRun, APromptComesFromStdinOrAFile) {
  const std::vector<std::string> tail = {"-n", "6", "--temp", "0", "--json"};
  const auto with = [&](std::vector<std::string> head, const std::string& text) {
    head.insert(head.end(), tail.begin(), tail.end());
    program::Input input;
    input.text = text;
    return json_of(run_tiny(head, input));
  };
  const Json direct = with({"-p", "some text"}, "");
  EXPECT_EQ(with({"-p", "-"}, "some text\n")["prompt_tokens"], direct["prompt_tokens"]);
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "prompt.txt") << "some text\n";
  const Json from_file = with({"-f", (folder.path() / "prompt.txt").string()}, "");
  EXPECT_EQ(from_file["prompt_tokens"], direct["prompt_tokens"]);
  EXPECT_EQ(from_file["tokens"], direct["tokens"]);
}

TEST(E2eRun, AStopStringCutsTheAnswer) {
  const Json whole = json_of(run_tiny({"-p", "abc", "-n", "24", "--seed", "5", "--temp", "1", "--json"}));
  const std::string text = whole["text"];
  size_t at = text.size() / 2;
  while (at < text.size() && (uint8_t(text[at]) < 0x21 || uint8_t(text[at]) > 0x7e)) ++at;
  ASSERT_LT(at, text.size());
  const std::string stop = text.substr(at, 1);
  const Json cut = json_of(run_tiny({"-p", "abc", "-n", "24", "--seed", "5", "--temp", "1", "--json", "--stop", stop}));
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_EQ(cut["stop"], stop);
}

TEST(E2eRun, AnAddedStopIdEndsTheAnswer) {
  const Json whole = json_of(run_tiny({"-p", "abc", "-n", "9", "--temp", "0", "--json"}));
  const int32_t id = whole["tokens"][4];
  const Json cut =
      json_of(run_tiny({"-p", "abc", "-n", "9", "--temp", "0", "--json", "--stop-id", std::to_string(id)}));
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_LE(cut["tokens"].size(), 4u);
  for (const Json& t : cut["tokens"]) EXPECT_NE(t, id);
}

TEST(E2eRun, LogprobsComeWithEachTokenAndWithNoTokenForTheNext) {
  const Json j = json_of(run_tiny({"-p", "abc", "-n", "3", "--temp", "0", "--json", "--top-logprobs", "4"}));
  ASSERT_EQ(j["logprobs"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& row = j["logprobs"][i];
    EXPECT_EQ(row["id"], j["tokens"][i]);
    ASSERT_EQ(row["top"].size(), 4u);
    EXPECT_EQ(row["top"][0]["id"], row["id"]) << "greedy takes the first";
    EXPECT_EQ(row["top"][0]["logprob"], row["logprob"]);
    EXPECT_LT(row["logprob"].get<double>(), 0);
  }
  const Json next = json_of(run_tiny({"-p", "abc", "-n", "0", "--json", "--top-logprobs", "4"}));
  EXPECT_EQ(next["text"], "");
  ASSERT_EQ(next["next"]["top"].size(), 4u);
  EXPECT_EQ(next["next"]["top"][0]["id"], j["tokens"][0]);
  EXPECT_TRUE(next["next"]["top"][0]["logit"].is_number());
  EXPECT_EQ(next["next"]["top"][0]["logprob"], j["logprobs"][0]["logprob"]);
}

TEST(E2eRun, NothingToGenerateIsNoError) {
  const Json j = json_of(run_tiny({"-p", "abc", "-n", "0", "--json"}));
  EXPECT_EQ(j["text"], "");
  EXPECT_EQ(j["finish_reason"], "length");
  EXPECT_EQ(j["usage"]["completion_tokens"], 0);
}

TEST(E2eRun, BadOptionsStopBeforeAnythingIsLoaded) {
  expect_failure(run_tiny({"-p", "x", "--top-kk", "3"}), 2, "--top-k");
  expect_failure(run_tiny({"-p", "x", "--top-k", "many"}), 2, "many");
  expect_failure(run_tiny({"-p", "x", "--temp", "-1"}), 2, "temp");
  expect_failure(run_tiny({"-p", "x", "-f", "y"}), 2, "wanted one of them");
  expect_failure(run_tiny({"-p", "x", "--top-logprobs", "3"}), 2, "--json");
  expect_failure(run_tiny({"-p", "x", "--json", "--top-logprobs", "21"}), 2, "20");
  expect_failure(run_tiny({"-p", "x", "--logit-bias", "5"}), 2, "ID=NUMBER");
  expect_failure(run_tiny({"-p", "x", "--logit-bias", "5000=1"}), 2, "outside the vocabulary");
  expect_failure(run_tiny({"-p", "x", "--stop-id", "abc"}), 2, "--stop-id");
  expect_failure(run_tiny({"-p", "x", "--stop-id", "5000"}), 2, "5000");
  expect_failure(run_tiny({"-p", "x", "--stop", ""}), 2, "stop");
  expect_failure(run_tiny({"-p", "x", "-c", "100000"}), 2, "at most 512");
  expect_failure(run_tiny({}), 2, "no prompt");
  expect_failure(run_tiny({"-p", "x"}, {.environment = {"LOFT_TOP_KK=3"}, .text = {}, .on_output = {}}), 2,
                 "LOFT_TOP_K");
  expect_failure(loft_program({"rum", "x"}), 2, "did you mean run?");
  expect_failure(loft_program({"run"}), 2, "MODEL");
}

TEST(E2eRun, APromptLongerThanTheContextTellsBothNumbers) {
  const Outcome o = run_tiny({"-p", std::string(100, 'a'), "-c", "64", "-n", "4"});
  expect_failure(o, 2, "tokens, the context holds 64");
}

TEST(E2eRun, AMissingModelOrPromptFileNamesIt) {
  expect_failure(loft_program({"run", "no-such-model", "-p", "x"}), 3, "no-such-model");
  expect_failure(run_tiny({"-f", "no-such-file"}), 3, "no-such-file");
  expect_failure(loft_program({"run", tiny_model().string(), "-p", "x"}), 3, "chat template");
}

TEST(E2eRun, ATruncatedShardIsCorruptAndNamed) {
  const TemporaryFolder folder;
  const fs::path copy = folder.path() / "cut";
  fs::copy(tiny_model(), copy, fs::copy_options::recursive);
  fs::path shard;
  for (const auto& e : fs::directory_iterator(copy)) {
    if (e.path().extension() == ".safetensors") shard = std::max(shard, e.path());
  }
  ASSERT_FALSE(shard.empty());
  fs::resize_file(shard, fs::file_size(shard) - 100);
  expect_failure(loft_program({"run", copy.string(), "--raw", "-p", "x"}), 3, shard.filename().string());
}

// Seen to fail with a signal that does not reach Engine::cancel (the whole answer comes first), and without the flush
// of each piece of text (the first 4096 bytes come at once).
TEST(E2eRun, CtrlCEndsTheAnswerAfterItsTextIsOut) {
  // The whole answer would take seconds.
  constexpr int kContext = 20000;
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "long";
  fs::copy(tiny_model(), model, fs::copy_options::recursive);
  Json config = read_json_file(model / "config.json");
  config["max_position_embeddings"] = kContext;
  std::ofstream(model / "config.json") << dump_json(config);
  bool is_sent = false;
  size_t first_bytes = 0;
  program::Input input;
  input.on_output = [&](pid_t child, const std::string& out) {
    if (is_sent || out.empty()) return;
    is_sent = true;
    first_bytes = out.size();
    kill(child, SIGINT);
  };
  // The end token must not come by itself.
  const Outcome o = loft_program({"run", model.string(), "--raw", "-p", "abc", "--seed", "3", "--temp", "1", "-c",
                                  std::to_string(kContext), "--logit-bias", "256=-100"},
                                 input);
  ASSERT_TRUE(is_sent);
  EXPECT_EQ(o.status, 130);
  EXPECT_FALSE(o.by_signal) << "it ended by itself";
  EXPECT_LT(first_bytes, 4096u) << "text came late";
  const size_t at = o.err.find("answer ");
  ASSERT_NE(at, std::string::npos) << o.err;
  EXPECT_LT(std::stoi(o.err.substr(at + 7)), kContext - 3) << "it went on to its end";
}

TEST(E2eRun, HelpAndPrintOptionsAreData) {
  const Outcome help = loft_program({"run", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("--top-k"));
  EXPECT_THAT(help.out, HasSubstr("loft.run/1"));
  const Outcome print = run_tiny({"--top-k", "5", "--print-options"});
  EXPECT_EQ(print.status, 0);
  EXPECT_THAT(print.out, HasSubstr("flag"));
}

TEST(E2eInspect, TellsShapeFormatsAndThePlan) {
  const Outcome o = loft_program({"inspect", tiny_model().string(), "--json", "-c", "128", "--parallel", "2"});
  const Json j = json_of(o);
  EXPECT_EQ(j["schema"], "loft.inspect/1");
  EXPECT_EQ(j["model_type"], "llama");
  EXPECT_EQ(j["layers"], 2);
  EXPECT_EQ(j["formats"][0]["format"], "affine4g32");
  EXPECT_EQ(j["kv_bytes_per_token"], 2 * 2 * 2 * 16 * 2);
  EXPECT_EQ(j["plan"]["kv_bytes"], 2 * 128 * 256);
  EXPECT_EQ(j["plan"]["fits"], true);
  EXPECT_GT(j["plan"]["activation_bytes"], 0);
  const Json shorter = json_of(loft_program(
      {"inspect", tiny_model().string(), "--json", "-c", "128", "--parallel", "2", "--prefill-chunk", "8"}))["plan"];
  EXPECT_LT(shorter["activation_bytes"], j["plan"]["activation_bytes"]);
  const Json limited =
      json_of(loft_program({"inspect", tiny_model().string(), "--json", "-c", "128", "--memory-limit", "4k"}))["plan"];
  EXPECT_EQ(limited["fits"], false);
  EXPECT_EQ(limited["available_bytes"], 4096);
}

TEST(E2eSynth, WritesACheckpointOnceAndRefusesWhatItCannot) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "config.json") << kTinyConfig;
  const std::string config = (folder.path() / "config.json").string(), dst = (folder.path() / "m").string();
  EXPECT_EQ(loft_program({"synth", config, dst, "--bits", "8", "--group-size", "32"}).status, 0);
  EXPECT_EQ(loft_program({"run", dst, "--raw", "-p", "x", "-n", "2", "-q"}).status, 0);
  expect_failure(loft_program({"synth", config, dst}), 2, "m");
  expect_failure(loft_program({"synth", "no-such-shape", dst + "2"}), 2, "smollm2-135m");
  expect_failure(loft_program({"synth", config, dst + "2", "--bits", "7"}), 2, "7 bits");
  EXPECT_FALSE(fs::exists(dst + "2"));
}

TEST(E2eDevices, NamesTheProcessor) {
  const Json j = json_of(loft_program({"devices", "--json"}));
  EXPECT_EQ(j["devices"][0]["backend"], "cpu");
  EXPECT_EQ(j["devices"][0]["present"], true);
}

TEST(E2eCompletion, IsAScriptForBash) {
  const Outcome o = loft_program({"completion", "bash"});
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, HasSubstr("complete -o filenames -F _loft loft"));
  expect_failure(loft_program({"completion", "fish"}), 2, "fish");
}

}  // namespace
}  // namespace loft
