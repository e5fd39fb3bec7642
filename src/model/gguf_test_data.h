// model: GGUF files in memory for tests, right or wrong as a test wants them. Values go in raw, in the order of the
// calls.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/gguf.h"

namespace loft {

class GgufWriter {
 public:
  template <class T>
  static void put(std::string& out, T v) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &v, sizeof v);
    out.append(bytes, sizeof v);
  }
  static void put_text(std::string& out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out.append(text);
  }

  void key(std::string_view name, GgufType type) {
    put_text(metadata, name);
    put<uint32_t>(metadata, uint32_t(type));
    ++n_keys;
  }
  void text(std::string_view name, std::string_view value) {
    key(name, GgufType::String);
    put_text(metadata, value);
  }
  void u32(std::string_view name, uint32_t v) { number(name, GgufType::U32, v); }
  void f32(std::string_view name, float v) { number(name, GgufType::F32, v); }
  void boolean(std::string_view name, bool v) { number(name, GgufType::Bool, uint8_t(v)); }
  template <class T>
  void number(std::string_view name, GgufType type, T v) {
    key(name, type);
    put(metadata, v);
  }
  void array(std::string_view name, GgufType element, uint64_t count) {
    key(name, GgufType::Array);
    put<uint32_t>(metadata, uint32_t(element));
    put<uint64_t>(metadata, count);
  }
  template <class T>
  void numbers(std::string_view name, GgufType element, const std::vector<T>& values) {
    array(name, element, values.size());
    for (const T v : values) put(metadata, v);
  }
  void texts(std::string_view name, const std::vector<std::string>& values) {
    array(name, GgufType::String, values.size());
    for (const std::string& v : values) put_text(metadata, v);
  }

  /// dims innermost first; bytes go to the next aligned place.
  void tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims, const std::string& bytes) {
    data.resize((data.size() + 31) / 32 * 32);
    tensor_at(name, type, dims, data.size());
    data += bytes;
  }
  /// An entry alone, with any offset.
  void tensor_at(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims, uint64_t offset) {
    put_text(tensors, name);
    put<uint32_t>(tensors, uint32_t(dims.size()));
    for (const uint64_t d : dims) put(tensors, d);
    put(tensors, type);
    put(tensors, offset);
    ++n_tensors;
  }

  std::string file() const {
    std::string out = "GGUF";
    put(out, version);
    put(out, n_tensors);
    put(out, n_keys);
    out += metadata + tensors;
    if (n_tensors > 0) out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }

  uint32_t version = 3;
  uint64_t n_tensors = 0;
  uint64_t n_keys = 0;
  std::string metadata;
  std::string tensors;
  std::string data;
};

inline std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace loft
