// loft trace as a user runs it, on tiny seeded checkpoints: bytes, widths, states, mistakes, and what loft compare sees
// when one weight, one route or one rounding is another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/sha256.h"
#include "tests/tiny_text_model.h"

namespace loft {
namespace {

using program::Outcome;
using testing::HasSubstr;
using testing::Not;

const TinyTextModel& llama() {
  static const TinyTextModel model(untied(tiny_llama()), false);
  return model;
}
/// bf16, a begin token, a window of 16.
const TinyTextModel& gemma() {
  static const TinyTextModel model(tiny_gemma(), true, DType::BF16, 1200);
  return model;
}

std::string trace_of(const TinyTextModel& m, std::vector<std::string> args, const program::Input& input = {}) {
  const Outcome o = m.run("trace", std::move(args), input);
  EXPECT_EQ(o.status, 0) << o.err;
  return o.out;
}

void expect_failure(const Outcome& o, int status, const std::string& why) {
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_FALSE(o.by_signal);
  EXPECT_TRUE(o.out.empty()) << o.out.substr(0, 200);
  EXPECT_THAT(o.err, HasSubstr(why));
}

/// Lines that are no comments, without the number of the chunk.
std::string rows_of(const std::string& trace) {
  std::istringstream in(trace);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('#')) out += line.substr(line.find('\t')) + "\n";
  }
  return out;
}

TEST(E2eTrace, BothFormsOfArgumentsGiveTheSameBytes) {
  const std::string by_position = trace_of(llama(), {"16", "3", "4", "8"});
  const std::string by_option =
      trace_of(llama(), {"--chunk", "16", "--max-chunks", "3", "--topk", "4", "--prefill", "8"});
  EXPECT_TRUE(by_position == by_option);
  EXPECT_THAT(by_position, HasSubstr("# chunks\t3\tchunk_tokens\t16\ttopk\t4\tprefill\t8\n"));
  EXPECT_THAT(by_position, testing::EndsWith("# end\trows\t48\n"));
  const std::string plain = trace_of(llama(), {"16", "3", "4", "8", "--plain"});
  EXPECT_TRUE(rows_of(plain) == rows_of(by_position));
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '#'), 4);
}

TEST(E2eTrace, AFileAppearsWhole) {
  const std::filesystem::path file = llama() / "whole.tsv";
  const std::string text = trace_of(llama(), {"16", "2"});
  EXPECT_EQ(trace_of(llama(), {"16", "2", "--out", file.string()}), "");
  EXPECT_TRUE(read_file(file) == text);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".part"));
}

TEST(E2eTrace, BytesDoNotDependOnTheNumberOfThreads) {
  for (const TinyTextModel* m : {&llama(), &gemma()}) {
    const std::string one = trace_of(*m, {"100", "2", "-t", "1"});
    EXPECT_TRUE(trace_of(*m, {"100", "2", "-t", "2"}) == one);
    EXPECT_TRUE(trace_of(*m, {"100", "2", "-t", "3"}) == one);
    EXPECT_TRUE(trace_of(*m, {"100", "2", "--repeat", "2"}) == one);
  }
}

TEST(E2eTrace, ForwardLinesTellTheRowsThatRan) {
  const std::string wide = trace_of(gemma(), {"--variant", "w256"});
  EXPECT_THAT(wide, HasSubstr("# forward\t0\tscored\trows\t256\tpast\t0\troutes\t"));
  EXPECT_THAT(wide, HasSubstr("# forward\t1\tscored\trows\t257\tpast\t0\troutes\t"));
  EXPECT_THAT(wide, Not(HasSubstr("context")));
  const std::string deep = trace_of(gemma(), {"4", "2", "8", "20", "--start-token", "600"});
  EXPECT_THAT(deep, HasSubstr("# forward\t0\tcontext\trows\t21\tpast\t0\t"));
  EXPECT_THAT(deep, HasSubstr("# forward\t0\tscored\trows\t4\tpast\t21\t"));
  EXPECT_THAT(deep, HasSubstr("# start\t600\tbos\t256\tlogits\tf32\n"));
}

TEST(E2eTrace, AChunkAloneIsTheChunkOfALongerRun) {
  for (const TinyTextModel* m : {&llama(), &gemma()}) {
    const std::string both = rows_of(trace_of(*m, {"40", "2"}));
    const std::string second = rows_of(trace_of(*m, {"40", "1", "--start-token", "40"}));
    EXPECT_EQ(second, both.substr(both.size() - second.size()));
    const program::Input by_alias{.environment = {"MLXCEL_TRACE_START_TOKEN=40"}};
    EXPECT_EQ(rows_of(trace_of(*m, {"40", "1"}, by_alias)), second);
  }
}

TEST(E2eTrace, TheJsonObjectDescribesTheFile) {
  const std::filesystem::path file = gemma() / "described.tsv";
  const Outcome o = gemma().run("trace", {"16", "2", "--out", file.string(), "--json", "--kv-dtype", "f32", "--scrub"});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json j = parse_json(o.out, "stdout");
  EXPECT_EQ(j["schema"], "loft.trace/1");
  EXPECT_EQ(j["model"], "model");
  EXPECT_EQ(j["model_id"].get<std::string>().size(), 64u);
  EXPECT_EQ(j["corpus"]["name"], "text.txt");
  EXPECT_EQ(j["corpus"]["tokens"], 1200);
  EXPECT_EQ(j["corpus"]["sha256"], sha256_hex(some_text(1200)));
  EXPECT_EQ(j["bos"], 256);
  EXPECT_EQ(j["rows"], 32);
  EXPECT_EQ(j["file_sha256"], sha256_hex(read_file(file)));
  EXPECT_EQ(j["options"]["kv_dtype"], (Json{{"value", "f32"}, {"source", "flag"}}));
  ASSERT_EQ(j["forwards"].size(), 2u);
  EXPECT_EQ(j["forwards"][1]["rows"], 17);
  EXPECT_FALSE(j["forwards"][1]["kernels"].empty());
  EXPECT_GT(j["mean_nll"], 0.0);
  for (const char* key : {"device", "build", "qmm", "memory", "ppl", "seconds", "data_sha256"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_THAT(read_file(file), HasSubstr("# option\tkv_dtype\tf32\tflag\n"));
}

TEST(E2eTrace, AllVariantsAfterOneLoad) {
  Json config = tiny_gemma();
  config["max_position_embeddings"] = 2048;
  const TinyTextModel m(config, true, DType::BF16, 1700);
  const Outcome o = m.run("trace", {"--variant", "all", "--out-dir", (m / "all").string(), "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json j = parse_json(o.out, "stdout");
  ASSERT_EQ(j["traces"].size(), 5u);
  const std::pair<const char*, int> rows[] = {
      {"w1", 128}, {"w8", 640}, {"w256", 512}, {"w1ctx512", 128}, {"w8ctx1536", 160}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(j["traces"][i]["variant"], rows[i].first);
    EXPECT_EQ(j["traces"][i]["rows"], rows[i].second);
    const std::string text = read_file(m / "all" / (std::string(rows[i].first) + ".tsv"));
    EXPECT_EQ(sha256_hex(text), j["traces"][i]["file_sha256"]);
  }
  EXPECT_TRUE(trace_of(m, {"--variant", "w1ctx512"}) == read_file(m / "all" / "w1ctx512.tsv"));
  EXPECT_THAT(read_file(m / "all" / "w1ctx512.tsv"), HasSubstr("# forward\t0\tscored\trows\t1\tpast\t513\t"));
}

/// A scale of one module is no number. For the embedding: that of byte 'Q', which stands at token 37.
TinyTextModel& with_nan(TinyTextModel& m, const std::string& module, size_t row) {
  edit_tensors(m.model, [&](Tensors& tensors) {
    OwnedTensor& scales = tensors.at(module + ".scales");
    const size_t row_bytes = scales.shape[1] * 2;
    scales.bytes[row * row_bytes] = 0;
    scales.bytes[row * row_bytes + 1] = 0x7e;
  });
  std::string text = some_text(400);
  text[37] = 'Q';
  write_text_file(m.text, text);
  return m;
}

// Mutant: trace_finite_check.
TEST(E2eTrace, AValueThatIsNotFiniteLeavesNoFile) {
  TinyTextModel m(untied(tiny_llama()), false);
  with_nan(m, "model.embed_tokens", 'Q');
  const std::filesystem::path file = m / "nan.tsv";
  const Outcome to_file = m.run("trace", {"16", "9", "--out", file.string()});
  expect_failure(to_file, 5, "chunk 2, position 5: a logit is not finite");
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".part"));
  const Outcome to_stdout = m.run("trace", {"16", "9"});
  EXPECT_EQ(to_stdout.status, 5);
  EXPECT_THAT(to_stdout.out, testing::EndsWith("\n# abort\t2\t5\n"));
  EXPECT_THAT(m.run("trace", {"16", "9", "--find-nan"}).err, HasSubstr("not finite; first seen in the embedding"));
  TinyTextModel inner(untied(tiny_llama()), false);
  with_nan(inner, "model.layers.1.mlp.down_proj", 3);
  EXPECT_THAT(inner.run("trace", {"16", "9", "--find-nan"}).err, HasSubstr("position 0: a logit is not finite; first "
                                                                           "seen in layer 1"));
}

TEST(E2eTrace, MistakesEndWithTheirStatus) {
  const auto fails = [](std::vector<std::string> args, int status, const std::string& why,
                        const program::Input& input = {}) {
    expect_failure(llama().run("trace", std::move(args), input), status, why);
  };
  fails({"abc"}, 2, "chunk: found 'abc', wanted a whole number in 1..");
  fails({"0"}, 2, "chunk: found '0'");
  fails({"16", "2", "1"}, 2, "topk: found '1', wanted a whole number in 2..1024");
  fails({"16", "2", "320"}, 2, "topk: found 320, wanted less than the vocabulary of 320");
  fails({"16", "--chunk", "16"}, 2, "chunk: given as an option and by its position");
  fails({"16", "2", "8", "0", "5"}, 2, "one argument too many");
  fails({"--variant", "w1", "--topk", "4"}, 2, "--variant w1: topk is given as well");
  fails({"16", "--variant", "w1"}, 2, "'16' is given as well");
  fails({"--variant", "w2"}, 2, "wanted one of w1|w8");
  fails({"--variant", "all"}, 2, "--out-dir");
  fails({"--out-dir", "x"}, 2, "--variant all only");
  fails({"--json"}, 2, "--out");
  fails({"--lora", "a:1"}, 2, "adapters");
  fails({}, 2, "adapters", {.environment = {"MLXCEL_TRACE_LORA=a:1"}});
  fails({}, 2, "MLXCEL_TRACE_START_TOKEN: found 'x'", {.environment = {"MLXCEL_TRACE_START_TOKEN=x"}});
  fails({"--label", "a\tb"}, 2, "control character");
  fails({"--temperature", "0"}, 2, "unknown option --temperature");
  fails({"--chunks", "16"}, 2, "did you mean --chunk?");
  fails({"400"}, 3, "text too short: 400 tokens");
  fails({"--start-token", "399", "1"}, 3, "text too short");
  fails({"600"}, 3, "text too short");
  expect_failure(gemma().run("trace", {"600"}), 2, "wanted at most the model's 512");
  expect_failure(program::run(LOFT_BINARY, {"trace", llama().model.string()}), 2, "TEXT is missing");
  expect_failure(program::run(LOFT_BINARY, {"trace", llama().model.string(), "absent.txt"}), 3, "absent.txt");
  write_text_file(llama() / "broken.txt", "abc\xff" + some_text(400));
  expect_failure(program::run(LOFT_BINARY, {"trace", llama().model.string(), (llama() / "broken.txt").string()}), 3,
                 "no UTF-8 at offset 3");
}

/// loft compare of two traces: its report, and the status under --fail-on bytes.
struct Compared {
  std::string report{};
  int status = 0;
};
Compared compared(const TinyTextModel& m, const std::string& reference, const std::string& candidate) {
  write_text_file(m / "reference.tsv", reference);
  write_text_file(m / "candidate.tsv", candidate);
  const Outcome o = program::run(
      LOFT_BINARY, {"compare", (m / "reference.tsv").string(), (m / "candidate.tsv").string(), "--fail-on", "bytes"});
  return {o.out, o.status};
}

const std::vector<std::string> kShape = {"100", "2"};
std::vector<std::string> shape_and(std::vector<std::string> more) {
  more.insert(more.begin(), kShape.begin(), kShape.end());
  return more;
}

TEST(E2eTraceMutations, ANullArmShowsNoDifference) {
  const Compared c = compared(llama(), trace_of(llama(), kShape), trace_of(llama(), kShape));
  EXPECT_EQ(c.status, 0);
  EXPECT_THAT(c.report, HasSubstr("verdict: identical"));
  EXPECT_THAT(c.report, HasSubstr("file identical"));
  EXPECT_THAT(c.report, Not(HasSubstr("routes:")));
}

TEST(E2eTraceMutations, OneWeightIsSeen) {
  TinyTextModel m(untied(tiny_llama()), false);
  const std::string before = trace_of(m, kShape);
  edit_tensors(m.model, [](Tensors& tensors) {
    tensors.at("model.layers.0.mlp.gate_proj.weight").bytes[0] ^= 0x08;  // the top bit of one 4-bit code
  });
  const Compared c = compared(m, before, trace_of(m, kShape));
  EXPECT_EQ(c.status, 1);
  EXPECT_THAT(c.report, HasSubstr("bytes: data different"));
  EXPECT_THAT(c.report, Not(HasSubstr("delta p50 0.0000 p90 0.0000 p99 0.0000 max 0.0000")));
}

TEST(E2eTraceMutations, OneRouteIsSeen) {
  const std::string before = trace_of(llama(), kShape);
  const std::string after = trace_of(llama(), shape_and({"--qmm-fused-max-m", "64"}));
  const Compared c = compared(llama(), before, after);
  EXPECT_THAT(c.report, HasSubstr("routes: chunk 0 scored routes: "));
  EXPECT_THAT(c.report, HasSubstr("DequantGemm"));
  EXPECT_THAT(c.report, HasSubstr("routes: chunk 1 scored kernels: "));
  EXPECT_THAT(after, HasSubstr("# option\tqmm_fused_max_m\t64\tflag\n"));
}

TEST(E2eTraceMutations, OneRoundingIsSeen) {
  const std::string before = trace_of(llama(), shape_and({"--kv-dtype", "f32"}));
  const std::string after = trace_of(llama(), shape_and({"--kv-dtype", "bf16"}));
  const Compared c = compared(llama(), before, after);
  EXPECT_EQ(c.status, 1);
  EXPECT_THAT(c.report, HasSubstr("bytes: data different"));
  EXPECT_THAT(c.report, Not(HasSubstr("routes:")));
}

}  // namespace
}  // namespace loft
