// model: what is copied beside the weights, and folders that appear only when they are complete.
#include "model/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "core/error.h"
#include "core/file_map.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CheckpointFiles : public testing::Test {
 protected:
  CheckpointFiles() {
    root_ = fs::path(testing::TempDir()) /
            fmt::format("loft_files_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(), ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_ / "src");
    fs::create_directories(root_ / "dst");
  }
  ~CheckpointFiles() override { fs::remove_all(root_); }

  std::set<std::string> names(const fs::path& folder) {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename());
    return all;
  }

  fs::path root_;
};

TEST_F(CheckpointFiles, SmallFilesAreCopiedAndCodeIsNot) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json",
                           "merges.txt", "tokenizer.model", "LICENSE", "config.json", "model.safetensors",
                           "model.safetensors.index.json", "modeling.py", "hf_quant_config.json", ".hidden.json"}) {
    write_text_file(root_ / "src" / name, name);
  }
  fs::create_directories(root_ / "src" / "additional_chat_templates");
  write_text_file(root_ / "src" / "additional_chat_templates" / "tools.jinja", "t");
  write_text_file(root_ / "src" / "additional_chat_templates" / "other.py", "t");
  copy_side_files(root_ / "src", root_ / "dst");
  EXPECT_EQ(names(root_ / "dst"), (std::set<std::string>{"tokenizer.json", "tokenizer_config.json",
                                                         "chat_template.jinja", "merges.txt", "generation_config.json",
                                                         "tokenizer.model", "LICENSE", "additional_chat_templates"}));
  EXPECT_EQ(names(root_ / "dst" / "additional_chat_templates"), std::set<std::string>{"tools.jinja"});
  EXPECT_EQ(read_text_file(root_ / "dst" / "merges.txt", 100), "merges.txt");
}

TEST_F(CheckpointFiles, ALinkThatLeavesTheFolderIsNotFollowed) {
  write_text_file(root_ / "secret", "s");
  fs::create_symlink("../secret", root_ / "src" / "tokenizer.json");
  try {
    copy_side_files(root_ / "src", root_ / "dst");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Corrupt);
    EXPECT_THAT(e.what(), HasSubstr("outside of"));
  }
}

TEST_F(CheckpointFiles, AnOutputFolderAppearsWhenItIsCommitted) {
  const fs::path out = root_ / "out";
  {
    OutputFolder folder(out);
    write_text_file(folder.path() / "a", "a");
    EXPECT_FALSE(fs::exists(out));
    EXPECT_THROW(OutputFolder second(out), Error);  // the same process, the same temporary name
  }
  EXPECT_EQ(names(root_), (std::set<std::string>{"src", "dst"}));  // nothing is left
  OutputFolder folder(out);
  write_text_file(folder.path() / "a", "a");
  folder.commit();
  EXPECT_EQ(names(out), std::set<std::string>{"a"});
  EXPECT_EQ(names(root_), (std::set<std::string>{"src", "dst", "out"}));
}

TEST_F(CheckpointFiles, AnOutputFolderNeedsANewName) {
  fs::create_symlink("nowhere", root_ / "dangling");
  for (const fs::path& bad : {root_ / "dst", root_ / "dst" / "", root_ / "dangling", root_ / ".", root_ / "..",
                              fs::path(), root_ / "absent" / "out"}) {
    try {
      OutputFolder folder(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::BadRequest) << e.what();
    }
  }
  OutputFolder late(root_ / "late");
  fs::create_directory(root_ / "late");
  EXPECT_THROW(late.commit(), Error);
}

}  // namespace
}  // namespace loft
