// model: the files of a checkpoint folder beside its weights. What enters: folders. What leaves: a checked real path,
// copies of the small files, and a new folder that appears under its name only when it is complete.
#pragma once
#include <filesystem>

namespace loft {

/// The real path behind a file of a checkpoint folder. A link may lead only into the same Hugging Face cache root
/// (folder ROOT/models--ORG--NAME/snapshots/COMMIT) or stay inside the folder. Errors: NotFound (absent, or the
/// download is not finished: a twin .incomplete is there), Corrupt (leads outside).
std::filesystem::path resolve_checkpoint_file(const std::filesystem::path& folder, const std::filesystem::path& file);

/// Copies tokenizer, templates, generation_config.json and the other small texts of a checkpoint into `dst`: *.json,
/// *.jinja,
/// *.txt, *.jsonl, *.model, *.tiktoken, LICENSE* and additional_chat_templates/*.jinja, without config.json, indexes of
/// weights and hf_quant_config.json. Never code.
void copy_side_files(const std::filesystem::path& src, const std::filesystem::path& dst);

/// A folder written under a temporary name beside `dst` and renamed to it by commit(); removed when that was not
/// called.
class OutputFolder {
 public:
  /// Errors: BadRequest (dst exists, has no name of its own, or its parent is no folder).
  explicit OutputFolder(const std::filesystem::path& dst);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return part_; }
  void commit();

 private:
  std::filesystem::path dst_;
  std::filesystem::path part_;  // empty once renamed
};

}  // namespace loft
