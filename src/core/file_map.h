// core: a file mapped read-only into memory. What enters: a path. What leaves: its bytes, for as long as the map lives.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace loft {

/// Owns one read-only mapping; move-only. Errors: NotFound (no such file, no permission), Corrupt (not a regular file).
class FileMap {
 public:
  static FileMap open(const std::filesystem::path& path);
  FileMap() = default;
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  ~FileMap();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

/// The whole file as a string. Errors: NotFound; Unsupported when it is larger than max_bytes.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes);

/// Writes `text` under a temporary name beside `path`, then renames it: a reader sees the old file or the new one.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace loft
