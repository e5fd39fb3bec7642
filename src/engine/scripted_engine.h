// engine: support for tests only. A model whose logits are a function of the tokens so far, over a tokenizer of single
// bytes and chosen pieces, so that tests can force any answer without weights. No program links it.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "engine/engine.h"

namespace loft::scripted {

/// Host memory and nothing else: a scripted model computes no tensors.
class HostMemoryBackend : public Backend {
 public:
  const DeviceInfo& device() const override { return device_; }
  const QmmPolicy& policy() const override { return policy_; }
  Buffer allocate(size_t bytes) override {
    return Buffer(
        std::calloc(bytes + 64, 1), bytes, [](void*, void* data, size_t) { std::free(data); }, nullptr);
  }
  void upload(void* device_data, const void* host_data, size_t bytes) override {
    std::memcpy(device_data, host_data, bytes);
  }
  void download(void* host_data, const void* device_data, size_t bytes) override {
    std::memcpy(host_data, device_data, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void synchronize() override {}
  MemoryStats memory() const override { return {}; }
  void reset_peak() override {}
  void embed(const Tensor&, const QuantWeight&, const void*, float, const Tensor&) override {}
  void rms_norm(const RmsNormArgs&) override {}
  void rope(const RopeArgs&) override {}
  void store_kv(const StoreKvArgs&) override {}
  void attention(const AttentionArgs&) override {}
  void add(const Tensor&, const Tensor&, const Tensor&) override {}
  void add_bias(const Tensor&, const Tensor&, const Tensor&) override {}
  void gated_activation(Activation, const Tensor&, const Tensor&, const Tensor&) override {}
  void softcap(const Tensor&, float, const Tensor&) override {}
  void gather_rows(const Tensor&, const Tensor&, const Tensor&) override {}
  void cast(const Tensor&, const Tensor&) override {}
  std::span<const QmmKernel> qmm_table() const override { return {}; }
  void run_qmm(const QmmArgs&) override {}
  void dequantize(const QuantWeight&, DType, void*) override {}

 private:
  DeviceInfo device_;
  QmmPolicy policy_;
};

/// tokens [n]: all tokens of one sequence so far. row [vocab], zero on entry: its logits after the last of them. May
/// throw.
using LogitsFn = std::function<void(std::span<const int32_t> tokens, std::span<float> row)>;

class ScriptedModel : public Model {
 public:
  ScriptedModel(int64_t vocab_size, int64_t max_positions, LogitsFn fn) : fn_(std::move(fn)) {
    config_.model_type = "scripted";
    config_.vocab_size = vocab_size;
    config_.max_positions = max_positions;
  }
  const ModelConfig& config() const override { return config_; }
  KvCacheShape kv_shape(DType kv_dtype, int64_t max_tokens, int64_t max_chunk) const override {
    return {.layers = {{.n_kv_heads = 1, .head_dim = 1, .window = 0}},
            .dtype = kv_dtype,
            .max_tokens = max_tokens,
            .max_chunk = max_chunk};
  }
  QmmStats qmm_stats() const override { return {}; }
  Tensor forward(const Batch& batch) override {
    logits_.assign(batch.logit_rows.size() * size_t(config_.vocab_size), 0.0f);
    size_t i_logits = 0;
    n_sequences_at_most = std::max(n_sequences_at_most, batch.sequences.size());
    for (const BatchSequence& s : batch.sequences) {
      std::vector<int32_t>& seen = seen_[s.cache];
      seen.resize(size_t(s.cache->n_tokens()));
      for (int64_t r = s.first_row; r < s.first_row + s.n_rows; ++r) {
        seen.push_back(batch.tokens[size_t(r)]);
        if (i_logits == batch.logit_rows.size() || batch.logit_rows[i_logits] != r) continue;
        fn_(seen, std::span(logits_).subspan(i_logits++ * size_t(config_.vocab_size), size_t(config_.vocab_size)));
      }
      s.cache->advance(s.n_rows);
      n_rows += s.n_rows;
    }
    const Tensor logits = make_tensor(logits_.data(), DType::F32, {int64_t(i_logits), config_.vocab_size});
    if (batch.taps && batch.taps->logits && i_logits > 0) batch.taps->logits(0, logits);
    return logits;
  }

  size_t n_sequences_at_most = 0;  // in one forward pass
  int64_t n_rows = 0;              // of all forward passes

 private:
  ModelConfig config_;
  LogitsFn fn_;
  std::map<const KvCache*, std::vector<int32_t>> seen_;
  std::vector<float> logits_;
};

/// The first ids of a scripted tokenizer are the 256 bytes, then the pieces, then the special tokens.
struct Vocabulary {
  std::vector<std::string> pieces = {};
  std::vector<std::string> specials = {};
  std::string bos = {};  // a special that the post-processor puts first; empty: none
  std::string eos = {};  // named by tokenizer_config.json; empty: none
  std::string chat_template = {};
  int32_t piece(size_t i) const { return int32_t(256 + i); }
  int32_t special(size_t i) const { return int32_t(256 + pieces.size() + i); }
  int64_t size() const { return int64_t(256 + pieces.size() + specials.size()); }
};

/// The byte-level alphabet of GPT-2's tokenizer: printable bytes stand for themselves, the others for U+0100 and up.
inline std::string byte_level(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto is_own = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    const int byte = uint8_t(c);
    int code = byte;
    if (!is_own(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += is_own(b) ? 0 : 1;
    }
    if (code < 0x80) {
      out.push_back(char(code));
    } else {
      out.push_back(char(0xc0 | code >> 6));
      out.push_back(char(0x80 | (code & 0x3f)));
    }
  }
  return out;
}

inline void write_tokenizer(const std::filesystem::path& folder, const Vocabulary& v) {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[byte_level(std::string(1, char(b)))] = b;
  for (size_t i = 0; i < v.pieces.size(); ++i) vocab[byte_level(v.pieces[i])] = v.piece(i);
  Json added = Json::array();
  for (size_t i = 0; i < v.specials.size(); ++i) {
    added.push_back({{"id", v.special(i)},
                     {"content", v.specials[i]},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  Json post = nullptr;
  if (!v.bos.empty()) {
    const auto at = std::find(v.specials.begin(), v.specials.end(), v.bos) - v.specials.begin();
    const Json special = {{"SpecialToken", {{"id", v.bos}, {"type_id", 0}}}};
    const Json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const Json b = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
    post = {{"type", "TemplateProcessing"},
            {"single", Json::array({special, a})},
            {"pair", Json::array({special, a, b})},
            {"special_tokens", {{v.bos, {{"id", v.bos}, {"ids", {v.special(size_t(at))}}, {"tokens", {v.bos}}}}}}};
  }
  const Json byte_level_part = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level_part},
                          {"post_processor", post},
                          {"decoder", byte_level_part},
                          {"model",
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"vocab", vocab},
                            {"merges", Json::array()}}}};
  std::ofstream(folder / "tokenizer.json") << dump_json(tokenizer);
  Json config = Json::object();
  if (!v.bos.empty()) config["bos_token"] = v.bos;
  if (!v.eos.empty()) config["eos_token"] = v.eos;
  if (!v.chat_template.empty()) config["chat_template"] = v.chat_template;
  std::ofstream(folder / "tokenizer_config.json") << dump_json(config);
}

/// A new empty folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "loft_test_XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& v) {
  const TemporaryFolder folder;
  write_tokenizer(folder.path(), v);
  return std::make_shared<const Tokenizer>(Tokenizer::load(folder.path()));
}

/// Logits that make a greedy sampler answer with `answer`, then with `then` for ever. The prompt has n_prompt tokens.
inline LogitsFn forced(std::vector<int32_t> answer, size_t n_prompt, int32_t then) {
  return [=](std::span<const int32_t> tokens, std::span<float> row) {
    const size_t i = tokens.size() - n_prompt;
    row[size_t(i < answer.size() ? answer[i] : then)] = 9.0f;
  };
}

/// Logits that look random and depend on every token so far: equal only for equal histories.
inline void hashed_logits(std::span<const int32_t> tokens, std::span<float> row) {
  uint64_t state = 0x9E3779B97F4A7C15ull;
  for (int32_t id : tokens) state = (state ^ uint64_t(id)) * 0xBF58476D1CE4E5B9ull + 1;
  for (float& x : row) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    x = float(state >> 40) * 0x1p-24f * 8.0f;
  }
}

/// An engine over a scripted model; `model` stays owned by the engine.
struct Scripted {
  std::unique_ptr<Engine> engine;
  ScriptedModel* model = nullptr;
};
inline Scripted make_engine(const Vocabulary& v, LogitsFn fn, EngineOptions options = {}, int64_t model_vocab = 0) {
  if (options.context == 0) options.context = 256;
  auto model = std::make_unique<ScriptedModel>(model_vocab ? model_vocab : v.size(), 4096, std::move(fn));
  Scripted s;
  s.model = model.get();
  s.engine = std::make_unique<Engine>(
      EngineParts{
          .backend = std::make_unique<HostMemoryBackend>(), .tokenizer = make_tokenizer(v), .model = std::move(model)},
      options);
  return s;
}

/// What a sequence gave, added up.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<RowLogprobs> logprobs;
  std::string text;
  std::optional<Finish> finish;
};

/// Steps until idle (at most max_steps) and adds up the events of each sequence.
inline std::map<SequenceId, Answer> drain(Engine& engine, int max_steps = 10000) {
  std::map<SequenceId, Answer> answers;
  for (int i = 0; i < max_steps && !engine.is_idle(); ++i) {
    for (const StepEvent& e : engine.step()) {
      Answer& a = answers[e.sequence];
      if (e.token) {
        a.tokens.push_back(e.token->id);
        if (e.token->logprobs) a.logprobs.push_back(*e.token->logprobs);
      }
      a.text += e.text;
      if (e.finish) a.finish = e.finish;
    }
  }
  return answers;
}

inline SamplerParams greedy() {
  SamplerParams p;
  p.temperature = 0;
  return p;
}

/// Submits one request and runs it to its end.
inline Answer answer(Engine& engine, Request request) {
  const SequenceId id = engine.submit(std::move(request));
  return drain(engine)[id];
}

}  // namespace loft::scripted
