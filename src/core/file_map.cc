#include "core/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/error.h"

namespace loft {

FileMap FileMap::open(const std::filesystem::path& path) {
  FileMap map;
  map.path_ = path.string();
  const int fd = ::open(map.path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(Code::NotFound, "{}: {}", map.path_, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(Code::Corrupt, "{}: not a regular file", map.path_);
  }
  map.size_ = size_t(info.st_size);
  if (map.size_ > 0) {
    void* p = ::mmap(nullptr, map.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      const int why = errno;
      ::close(fd);
      fail(Code::OutOfMemory, "{}: cannot map {} bytes: {}", map.path_, map.size_, std::strerror(why));
    }
    map.data_ = static_cast<const uint8_t*>(p);
  }
  ::close(fd);
  return map;
}

FileMap::FileMap(FileMap&& other) noexcept {
  *this = std::move(other);
}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

FileMap::~FileMap() {
  if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  const FileMap map = FileMap::open(path);
  const auto bytes = map.bytes();
  if (bytes.size() > max_bytes) {
    fail(Code::Unsupported, "{}: {} bytes, at most {} are read", path.string(), bytes.size(), max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path part = path;
  part += ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out.write(text.data(), std::streamsize(text.size()));
    out.flush();
    if (!out) {
      const int why = errno;
      std::error_code ignored;
      std::filesystem::remove(part, ignored);
      const Code code = why == ENOSPC ? Code::OutOfMemory : Code::NotFound;
      fail(code, "{}: cannot be written: {}", path.string(), std::strerror(why));
    }
  }
  std::filesystem::rename(part, path);
}

}  // namespace loft
