// Teacher-forced passes of tiny models: what a row gives depends neither on the blocks of lm_head nor on its company,
// and the first layer with a value that is not finite is found.
#include <gtest/gtest.h>

#include "measure/teacher_forced.h"
#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

struct TinyModel {
  TempFolder temp;
  std::unique_ptr<Backend> backend = open_test_backend();
  std::unique_ptr<Model> model;
  explicit TinyModel(const Json& config, int64_t max_logit_rows = 128,
                     const std::function<void(Tensors&)>& edit = nullptr) {
    synth_checkpoint(tiny_request(config), temp / "m");
    if (edit) edit_tensors(temp / "m", edit);
    model = load_model(temp / "m", *backend, {.max_rows = 128, .max_logit_rows = max_logit_rows});
  }
  /// Logits of all scored rows, one sequence after the other.
  std::vector<float> rows(const std::vector<ForcedSequence>& sequences) {
    std::vector<float> out;
    forced_forward(*backend, *model, DType::F32, sequences, [&](int64_t, int64_t, std::span<const float> row) {
      out.insert(out.end(), row.begin(), row.end());
    });
    return out;
  }
};

std::vector<float> tail(const std::vector<float>& logits, size_t n_rows) {
  return {logits.end() - std::ptrdiff_t(320 * n_rows), logits.end()};
}

// Mutant: trace_head_blocks.
TEST(TeacherForced, BlocksOfTheHeadGiveTheSameBits) {
  const ForcedSequence s{.ids = some_ids(41), .first_row = 3};
  const std::vector<float> whole = TinyModel(tiny_gemma()).rows({s});
  ASSERT_EQ(whole.size(), 320u * 37);
  EXPECT_EQ(TinyModel(tiny_gemma(), 5).rows({s}), whole);
  TinyModel m(tiny_gemma());
  EXPECT_EQ(whole, tail(run_model(*m.backend, *m.model, {s.ids.begin(), s.ids.end() - 1}, 40), 37));
}

TEST(TeacherForced, AContextIsSeenAndSequencesAreApart) {
  TinyModel m(tiny_gemma());
  const std::vector<int32_t> ids = some_ids(60);
  const ForcedSequence with_context{.context = {ids.begin(), ids.begin() + 40}, .ids = {ids.begin() + 40, ids.end()}};
  const ForcedSequence other{.ids = some_ids(21, 300), .first_row = 10};
  const std::vector<float> a = m.rows({with_context}), b = m.rows({other});
  EXPECT_EQ(a, tail(run_model(*m.backend, *m.model, {ids.begin(), ids.end() - 1}, 59), 19));
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  EXPECT_EQ(m.rows({with_context, other}), both);
}

TEST(TeacherForced, PassesCountTheirProducts) {
  TinyModel m(tiny_gemma(), 5);
  const ForcedSequence s{.context = some_ids(12), .ids = some_ids(9)};
  const auto passes = forced_forward(*m.backend, *m.model, DType::F32, {&s, 1}, [](auto...) {});
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_TRUE(passes[0].is_context);
  EXPECT_EQ(passes[0].rows, 12);
  EXPECT_EQ(passes[1].rows, 8);
  EXPECT_EQ(passes[1].past, 12);
  const auto products = [](const ForcedPass& pass) {
    uint64_t sum = 0;
    for (const auto& [name, count] : pass.routes) sum += count;
    return sum;
  };
  EXPECT_EQ(products(passes[0]), 3u * 5);      // no head
  EXPECT_EQ(products(passes[1]), 3u * 5 + 2);  // two blocks of the head
}

TEST(TeacherForced, BlocksFollowTheVocabulary) {
  EXPECT_EQ(logit_block_rows(49152), 320);  // 64 MiB hold 341
  EXPECT_EQ(logit_block_rows(262144), 64);
  EXPECT_EQ(logit_block_rows(2000000), 64);
}

TEST(TeacherForced, TheFirstLayerThatIsNotFiniteIsFound) {
  const ForcedSequence s{.ids = some_ids(9)};
  const auto found = [&](const char* tensor) {
    TinyModel m(untied(tiny_llama()), 128, [&](Tensors& t) {
      auto& bytes = t.at(tensor).bytes;
      bytes[bytes.size() - 1] = 0x7f;  // the last bf16 becomes a NaN
      bytes[bytes.size() - 2] = 0xff;
    });
    return first_non_finite(*m.backend, *m.model, DType::F32, s);
  };
  EXPECT_EQ(found("model.layers.0.mlp.up_proj.scales"), "layer 0");
  EXPECT_EQ(found("model.layers.1.post_attention_layernorm.weight"), "layer 1");
  EXPECT_EQ(found("lm_head.scales"), "the head");
}

}  // namespace
}  // namespace loft
