// Folders, names, and the Hugging Face cache in its real layout.
#include "apps/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using scripted::TemporaryFolder;
using testing::HasSubstr;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// models--ORG--NAME with config.json as a blob behind a link.
fs::path add_cached(const fs::path& root, const std::string& folder) {
  const fs::path model = root / folder;
  write(model / "refs" / "main", "abc123");
  write(model / "blobs" / "b1", "{}");
  fs::create_directories(model / "snapshots" / "abc123");
  fs::create_symlink("../../blobs/b1", model / "snapshots" / "abc123" / "config.json");
  return model;
}

class ModelPath : public testing::Test {
 protected:
  ModelPath() : root_(folder_.path() / "hub"), models_(folder_.path() / "models") {
    environment_ = {"HOME=/nowhere", "HF_HUB_CACHE=" + root_.string()};
  }
  fs::path resolve(const std::string& name) const {
    return resolve_model(name, {.models_dir = models_, .environment = environment_});
  }
  std::string error_of(const std::string& name, Code code) const {
    try {
      return "found " + resolve(name).string();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
  }
  TemporaryFolder folder_;
  fs::path root_, models_;
  std::vector<std::string> environment_;
};

TEST_F(ModelPath, AFolderANameAndACachedModelAreFoundInThisOrder) {
  write(folder_.path() / "here" / "config.json", "{}");
  write(models_ / "tiny" / "config.json", "{}");
  const fs::path cached = add_cached(root_, "models--org--tiny");
  EXPECT_EQ(resolve((folder_.path() / "here").string()), folder_.path() / "here");
  EXPECT_EQ(resolve("tiny"), models_ / "tiny");
  EXPECT_EQ(resolve("org/tiny"), cached / "snapshots" / "abc123");
}

TEST_F(ModelPath, ANameAloneIsEnoughWhereOneOrganisationHasIt) {
  const fs::path cached = add_cached(root_, "models--org--only");
  EXPECT_EQ(resolve("only"), cached / "snapshots" / "abc123");
  add_cached(root_, "models--other--only");
  EXPECT_THAT(error_of("only", Code::BadRequest), HasSubstr("fits 2 models: org/only, other/only"));
}

TEST_F(ModelPath, AMissingNameListsTheNearest) {
  add_cached(root_, "models--mlx-community--Qwen3-0.6B-4bit");
  write(models_ / "SmolLM2-135M-Instruct-4bit" / "config.json", "{}");
  EXPECT_THAT(error_of("SmolLM2-135M-Instruct-4bi", Code::NotFound), HasSubstr("nearest: SmolLM2-135M-Instruct-4bit"));
  EXPECT_THAT(error_of("SmolLM2-135M", Code::NotFound), HasSubstr("SmolLM2-135M-Instruct-4bit"));
  EXPECT_THAT(error_of("zzz", Code::NotFound), HasSubstr("there are: "));
}

TEST_F(ModelPath, FilesAndFoldersWithoutAConfigAreNamed) {
  write(folder_.path() / "x.gguf", "GGUF");
  EXPECT_THAT(error_of((folder_.path() / "x.gguf").string(), Code::Unsupported), HasSubstr("loft convert"));
  fs::create_directories(folder_.path() / "empty");
  EXPECT_THAT(error_of((folder_.path() / "empty").string(), Code::NotFound), HasSubstr("no config.json"));
  EXPECT_THAT(error_of("", Code::BadRequest), HasSubstr("empty"));
}

TEST_F(ModelPath, AnUnfinishedDownloadIsCorruptAndNamesTheFile) {
  const fs::path cached = add_cached(root_, "models--org--part");
  write(
      cached / "trees" / "abc123.json",
      R"({"format_version": 1, "files": {"config.json": {"size": 2}, "model.safetensors": {"size": 10}, "README.md": {"size": 1}}})");
  EXPECT_THAT(error_of("org/part", Code::Corrupt), HasSubstr("model.safetensors: missing"));
  write(cached / "snapshots" / "abc123" / "model.safetensors", "short");
  EXPECT_THAT(error_of("org/part", Code::Corrupt), HasSubstr("5 bytes, wanted 10"));
  write(cached / "snapshots" / "abc123" / "model.safetensors", "0123456789");
  EXPECT_EQ(resolve("org/part"), cached / "snapshots" / "abc123");
  fs::create_symlink("../../blobs/none", cached / "snapshots" / "abc123" / "tokenizer.json");
  EXPECT_THAT(error_of("org/part", Code::Corrupt), HasSubstr("tokenizer.json"));
}

TEST_F(ModelPath, ALinkOutOfTheCacheIsRefused) {
  const fs::path cached = add_cached(root_, "models--org--evil");
  write(folder_.path() / "secret", "x");
  fs::create_symlink(folder_.path() / "secret", cached / "snapshots" / "abc123" / "tokenizer.json");
  EXPECT_THAT(error_of("org/evil", Code::Corrupt), HasSubstr("outside the cache"));
  write(cached / "refs" / "main", "../../..");
  EXPECT_THAT(error_of("org/evil", Code::Corrupt), HasSubstr("refs/main"));
}

TEST(HuggingFaceCache, VariablesAreReadInTheirOrder) {
  const std::vector<std::string> all = {"HOME=/h", "XDG_CACHE_HOME=/x", "HF_HOME=/f", "HUGGINGFACE_HUB_CACHE=/o",
                                        "HF_HUB_CACHE=/c"};
  const auto first = [&](size_t n) { return hugging_face_cache(std::span(all).first(n)); };
  EXPECT_EQ(first(0), "");
  EXPECT_EQ(first(1), "/h/.cache/huggingface/hub");
  EXPECT_EQ(first(2), "/x/huggingface/hub");
  EXPECT_EQ(first(3), "/f/hub");
  EXPECT_EQ(first(4), "/o");
  EXPECT_EQ(first(5), "/c");
  EXPECT_EQ(hugging_face_cache(std::vector<std::string>{"HF_HUB_CACHE=", "HOME=/h"}), "/h/.cache/huggingface/hub");
}

}  // namespace
}  // namespace loft
