// core: owned memory of one device. Move-only; the device's backend made it and knows how to free it.
#pragma once
#include <cstddef>
#include <utility>

namespace loft {

class Buffer {
 public:
  using Free = void (*)(void* owner, void* data, size_t bytes);
  Buffer() = default;
  /// Takes over `data`; `free_fn(owner, data, bytes)` runs when the buffer dies. `owner` must outlive the buffer.
  Buffer(void* data, size_t bytes, Free free_fn, void* owner)
      : data_(data), bytes_(bytes), free_(free_fn), owner_(owner) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_) free_(owner_, data_, bytes_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    std::swap(owner_, other.owner_);
  }
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Free free_ = nullptr;
  void* owner_ = nullptr;
};

}  // namespace loft
