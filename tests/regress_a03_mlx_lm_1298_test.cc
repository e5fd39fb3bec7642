// ml-explore/mlx-lm#1298: a tied checkpoint that also holds lm_head must load: the head is dropped with one note. Any
// other extra tensor, and any missing one, is an error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Tied twin of an untied checkpoint: its own head stays in the files.
void make_tied_with_head(const std::filesystem::path& folder, const Json& config,
                         std::map<std::string, std::variant<bool, QuantFormat>> modules = {}) {
  SynthRequest request = tiny_request(untied(config));
  request.modules = std::move(modules);
  synth_checkpoint(request, folder);
  edit_config(folder, [](Json& c) { c["tie_word_embeddings"] = true; });
}

TEST(RegressA03, AnExtraHeadIsDroppedWithOneNote) {
  for (const Json& config : {tiny_llama(), tiny_gemma()}) {
    TempFolder temp;
    synth_checkpoint(tiny_request(config), temp / "tied");
    make_tied_with_head(temp / "quantized", config);
    make_tied_with_head(temp / "dense", config, {{"lm_head", false}});
    EXPECT_THAT(open_checkpoint(temp / "quantized").notes(),
                ElementsAre("dropped lm_head.weight, lm_head.scales, lm_head.biases: tie_word_embeddings is true"));
    EXPECT_THAT(open_checkpoint(temp / "dense").notes(),
                ElementsAre("dropped lm_head.weight: tie_word_embeddings is true"));
    const std::vector<int32_t> ids = some_ids(16);
    const std::vector<float> wanted = logits_of(temp / "tied", ids);
    EXPECT_EQ(logits_of(temp / "quantized", ids), wanted);
    EXPECT_EQ(logits_of(temp / "dense", ids), wanted);
  }
}

TEST(RegressA03, WithoutTheKeyAHeadThatIsThereIsUsed) {
  for (const Json& config : {tiny_llama(), tiny_gemma()}) {
    TempFolder temp;
    synth_checkpoint(tiny_request(untied(config)), temp / "untied");
    const std::vector<int32_t> ids = some_ids(16);
    const std::vector<float> wanted = logits_of(temp / "untied", ids);
    edit_config(temp / "untied", [](Json& c) { c.erase("tie_word_embeddings"); });
    EXPECT_EQ(logits_of(temp / "untied", ids), wanted);
    EXPECT_FALSE(open_checkpoint(temp / "untied").is_tied());
  }
}

TEST(RegressA03, AMissingHeadTiesOnlyWhereTheFamilySaysSo) {
  TempFolder temp;
  for (const char* name : {"llama", "gemma"}) {
    synth_checkpoint(tiny_request(name[0] == 'l' ? tiny_llama() : tiny_gemma()), temp / name);
    edit_config(temp / name, [](Json& c) { c["tie_word_embeddings"] = false; });
  }
  EXPECT_THAT(error_of([&] { open_checkpoint(temp / "llama"); }), HasSubstr("lm_head.weight: missing"));
  EXPECT_TRUE(open_checkpoint(temp / "gemma").is_tied());
}

TEST(RegressA03, UnknownTensorsAreAnErrorAndTheSkipListIsOneNote) {
  TempFolder temp;
  const std::filesystem::path folder = temp / "m";
  synth_checkpoint(tiny_request(tiny_llama()), folder);
  edit_tensors(folder, [](Tensors& t) {
    t["vision_tower.patch.weight"] = float_tensor({2}, {1, 2});
    t["model.layers.0.self_attn.rotary_emb.inv_freq"] = float_tensor({2}, {1, 2});
  });
  EXPECT_THAT(open_checkpoint(folder).notes(), ElementsAre(HasSubstr("ignored 2 tensors")));
  edit_tensors(folder, [](Tensors& t) {
    for (int i = 0; i < 12; ++i) t[fmt::format("model.extra.{:02}", i)] = float_tensor({1}, {1});
  });
  const std::string message = error_of([&] { open_checkpoint(folder); });
  EXPECT_THAT(message, AllOf(HasSubstr("12 tensors"), HasSubstr("model.extra.00"), HasSubstr("model.extra.09, ...")));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("model.extra.10")));
}

TEST(RegressA03, AMissingTensorIsNamedWithShapeAndFolder) {
  TempFolder temp;
  const std::filesystem::path folder = temp / "m";
  synth_checkpoint(tiny_request(tiny_llama()), folder);
  edit_tensors(folder, [](Tensors& t) { t.erase("model.layers.1.self_attn.k_proj.biases"); });
  EXPECT_THAT(error_of([&] { open_checkpoint(folder); }),
              AllOf(HasSubstr("model.layers.1.self_attn.k_proj.biases: missing, wanted shape [64, 2]"),
                    HasSubstr(folder.string())));
}

}  // namespace
}  // namespace loft
