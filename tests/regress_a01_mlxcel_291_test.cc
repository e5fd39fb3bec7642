// lablup/mlxcel#291: an 8-bit embedding in a 4-bit checkpoint was read with 4 bits. A module's own settings count, for
// the look-up and for the tied head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_checkpoint.h"

namespace loft {
namespace {

using ::testing::HasSubstr;

constexpr QuantFormat kEight{QuantKind::Affine, 8, 64};

struct RegressA01 : ::testing::TestWithParam<Json> {
  TempFolder temp;
  std::filesystem::path folder = temp / "packed", twin = temp / "twin";
  void SetUp() override {
    SynthRequest request = tiny_request(GetParam());
    request.modules["model.embed_tokens"] = kEight;
    synth_checkpoint(request, folder);
    make_dense_twin(folder, twin);
  }
};

TEST_P(RegressA01, AnEmbeddingOfItsOwnBitsGivesTheLogitsOfItsDenseTwin) {
  const Tensors tensors = read_tensors(folder);
  EXPECT_EQ(tensors.at("model.embed_tokens.weight").shape, (std::vector<uint64_t>{320, 32}));
  EXPECT_EQ(tensors.at("model.embed_tokens.scales").shape, (std::vector<uint64_t>{320, 2}));
  const std::vector<int32_t> ids = some_ids(24);
  EXPECT_LE(relative_difference(logits_of(folder, ids), logits_of(twin, ids)), kTwinTolerance);
}

TEST_P(RegressA01, LookedUpRowsEqualTheDenseTwin) {
  const std::unique_ptr<Backend> backend = open_test_backend();
  Weights packed(*backend, open_checkpoint(folder)), dense(*backend, open_checkpoint(twin));
  std::vector<int32_t> ids = some_ids(8);
  std::vector<float> rows[2] = {std::vector<float>(8 * 128), std::vector<float>(8 * 128)};
  int i = 0;
  for (Weights* weights : {&packed, &dense}) {
    backend->embed(make_tensor(ids.data(), DType::I32, {8}), weights->table("model.embed_tokens"), nullptr, 1.0f,
                   make_tensor(rows[i++].data(), DType::F32, {8, 128}));
  }
  EXPECT_EQ(rows[0], rows[1]);
}

TEST_P(RegressA01, WithoutAnEntryTheShapesTellTheBits) {
  const std::vector<int32_t> ids = some_ids(24);
  const std::vector<float> wanted = logits_of(folder, ids);
  edit_config(folder, [](Json& config) {
    config["quantization"].erase("model.embed_tokens");
    config["quantization_config"].erase("model.embed_tokens");
  });
  EXPECT_EQ(logits_of(folder, ids), wanted);
  EXPECT_THAT(open_checkpoint(folder).notes(),
              ::testing::ElementsAre("model.embed_tokens: affine8g64 by its shapes, while the global settings say "
                                     "affine4g64"));
}

TEST_P(RegressA01, AnEntryAgainstTheShapesNamesTensorShapesAndSettings) {
  edit_config(folder, [](Json& config) {
    config["quantization"]["model.embed_tokens"] = {{"bits", 4}, {"group_size", 64}};
  });
  const std::string message = error_of([&] { open_checkpoint(folder); });
  for (const char* part : {"model.embed_tokens.weight", "[320, 32]", "[320, 2]", "[320, 16] and [320, 2]", "affine4g64",
                           "the quantization entry of model.embed_tokens", "affine8g64", "model.safetensors"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RegressA01, ::testing::Values(tiny_llama(), tiny_gemma()));

}  // namespace
}  // namespace loft
