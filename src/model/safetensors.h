// model: safetensors files. What enters: a path. What leaves: named views into the mapped file, or a written file.
// Format: 8 bytes little-endian header size N, N bytes of JSON, then the buffer. The reader trusts nothing (docs and
// limits: checkpoints in docs/; header at most 100 MB, rank at most 8, no overlap, no hole, no duplicate name, checked
// products).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/file_map.h"

namespace loft {

/// One tensor of a file: a view into the map, any alignment. dtype is nullopt for types loft cannot compute with
/// (F8_...).
struct StoredTensor {
  std::string dtype_text;  // as in the file: "F32", "BF16", "U32", ...
  std::optional<DType> dtype;
  std::vector<uint64_t> shape;  // outermost first
  std::span<const uint8_t> bytes;
};

/// One file. Errors: NotFound; Corrupt naming file, tensor, found and wanted.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  /// As open, over memory that outlives the result (tests, fuzzing).
  static SafetensorsFile parse(std::span<const uint8_t> file, std::string_view where);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& where() const { return where_; }

 private:
  FileMap map_;
  std::string where_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// All shards of a checkpoint folder as one map of names. Loads what model*.safetensors hold. The index, where present,
/// only proves completeness (a shard that it names must be there; names are plain file names); without it the numbers
/// in the shards' names do, and in a Hugging Face cache the listing of the commit, with sizes. A tensor in two shards
/// is an error, and so is a twin .incomplete. Symlinks may lead only into the same cache root. Where index and files
/// disagree on tensors, one warning is logged. Errors: NotFound (missing or unfinished), Corrupt.
class Shards {
 public:
  static Shards open(const std::filesystem::path& folder);
  const StoredTensor* find(const std::string& name) const;    // null: absent
  const std::string& file_of(const std::string& name) const;  // path of its shard, for messages
  std::vector<std::string> names() const;                     // sorted
  uint64_t total_bytes() const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<const StoredTensor*, size_t>> by_name_;
};

/// A tensor to be written: its parts are known before its bytes are.
struct TensorPlan {
  std::string name;
  DType dtype = DType::F32;
  std::vector<uint64_t> shape;
  uint64_t bytes() const;
};

/// Writes shards of at most max_shard_bytes into `folder`, model.safetensors or model-0000i-of-0000N.safetensors plus
/// the index, metadata {"format": "mlx"}. Tensors are appended in the order of the plan, each in one or more pieces;
/// finish() checks that nothing is missing. The caller makes the folder temporary and renames it when all is done.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path folder, std::vector<TensorPlan> plan,
                    uint64_t max_shard_bytes = uint64_t(5) << 30);
  ~SafetensorsWriter();
  void append(std::span<const uint8_t> bytes);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace loft
