// panbanda/higgs#260: `"model.embed_tokens": false` means a dense embedding in a quantized checkpoint, for the look-up
// and for a tied head; any module takes an object, false or true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using ::testing::HasSubstr;

struct Form {
  const char* name;
  Json config;
  std::map<std::string, std::variant<bool, QuantFormat>> modules;
};

std::vector<Form> forms() {
  constexpr const char* kDown = "model.layers.1.mlp.down_proj";
  return {
      {"false on the embedding, tied", tiny_llama(), {{"model.embed_tokens", false}}},
      {"false on the embedding, untied", untied(tiny_llama()), {{"model.embed_tokens", false}}},
      {"false on the head", untied(tiny_llama()), {{"lm_head", false}}},
      {"false on one linear layer", tiny_llama(), {{kDown, false}}},
      {"true on one linear layer", tiny_llama(), {{kDown, true}}},
      {"all three",
       tiny_gemma(),
       {{"model.embed_tokens", false},
        {kDown, true},
        {"model.layers.0.self_attn.v_proj", QuantFormat{QuantKind::Affine, 6, 32}}}},
  };
}

TEST(RegressA02, EveryFormOfAnEntryGivesTheLogitsOfTheDenseTwin) {
  for (const Form& form : forms()) {
    TempFolder temp;
    SynthRequest request = tiny_request(form.config);
    request.modules = form.modules;
    synth_checkpoint(request, temp / "packed");
    make_dense_twin(temp / "packed", temp / "twin");
    const std::vector<int32_t> ids = some_ids(16);
    EXPECT_LE(relative_difference(logits_of(temp / "packed", ids), logits_of(temp / "twin", ids)), kTwinTolerance)
        << form.name;
  }
}

TEST(RegressA02, FalseOverPackedCodesAndTrueOverADenseWeightAreNamed) {
  TempFolder temp;
  synth_checkpoint(tiny_request(tiny_llama()), temp / "a");
  edit_config(temp / "a", [](Json& config) { config["quantization"]["model.embed_tokens"] = false; });
  EXPECT_THAT(error_of([&] { open_checkpoint(temp / "a"); }),
              HasSubstr("the quantization entry of model.embed_tokens says false"));

  SynthRequest request = tiny_request(tiny_llama());
  request.modules["model.embed_tokens"] = false;
  synth_checkpoint(request, temp / "b");
  edit_config(temp / "b", [](Json& config) { config["quantization"]["model.embed_tokens"] = true; });
  EXPECT_THAT(error_of([&] { open_checkpoint(temp / "b"); }), HasSubstr("model.embed_tokens.scales: missing"));
}

}  // namespace
}  // namespace loft
