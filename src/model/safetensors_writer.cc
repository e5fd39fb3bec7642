// model: writing of safetensors shards and their index. See safetensors.h.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "core/file_map.h"
#include "core/json.h"
#include "model/safetensors.h"
#include "model/safetensors_dtypes.h"

namespace loft {
namespace {

// The buffer starts on a multiple of this, so that rows can be read in place by aligned loads. Other writers do not
// pad.
constexpr size_t kHeaderMultiple = 64;

struct Shard {
  size_t first = 0;  // index of its first tensor in the plan
  size_t end = 0;
  uint64_t bytes = 0;
};

// As mlx-lm fills its shards: in order, a new one when the next tensor would not fit.
std::vector<Shard> make_shards(const std::vector<TensorPlan>& plan, uint64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  for (size_t i = 0; i < plan.size(); ++i) {
    const uint64_t bytes = plan[i].bytes();
    const bool fits = bytes <= max_shard_bytes && shards.back().bytes <= max_shard_bytes - bytes;
    if (!fits && shards.back().end > shards.back().first) shards.push_back({.first = i, .end = i, .bytes = 0});
    shards.back().end = i + 1;
    shards.back().bytes += bytes;
  }
  return shards;
}

std::string shard_name(size_t shard, size_t n_shards) {
  return n_shards == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, n_shards);
}

std::string header_text(const std::vector<TensorPlan>& plan, const Shard& shard) {
  Json header = {{"__metadata__", {{"format", "mlx"}}}};
  uint64_t offset = 0;
  for (size_t i = shard.first; i < shard.end; ++i) {
    const uint64_t end = offset + plan[i].bytes();
    header[plan[i].name] = {
        {"dtype", stored_dtype_text(plan[i].dtype)}, {"shape", plan[i].shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump_json(header);
  text.resize((text.size() + 8 + kHeaderMultiple - 1) / kHeaderMultiple * kHeaderMultiple - 8, ' ');
  return text;
}

}  // namespace

uint64_t TensorPlan::bytes() const {
  const std::optional<uint64_t> count = checked_product(shape);
  const std::optional<uint64_t> size = count ? checked_mul(*count, dtype_bytes(dtype)) : std::nullopt;
  if (!size) fail(Code::Unsupported, "tensor {}: its size does not fit 64 bits", name);
  return *size;
}

struct SafetensorsWriter::State {
  std::filesystem::path folder;
  std::vector<TensorPlan> plan;
  std::vector<Shard> shards;
  size_t shard = 0;           // being written
  size_t tensor = 0;          // index of the tensor being written
  uint64_t tensor_bytes = 0;  // of it, written so far
  int fd = -1;
  std::string path;

  ~State() {
    if (fd >= 0) ::close(fd);
  }

  [[noreturn]] void fail_writing() const {
    const Code code = errno == ENOSPC || errno == EDQUOT ? Code::OutOfMemory : Code::NotFound;
    fail(code, "{}: cannot be written: {}", path, std::strerror(errno));
  }

  void write_all(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t(1) << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_writing();
      bytes = bytes.subspan(size_t(n));
    }
  }

  void open_shard() {
    path = (folder / shard_name(shard, shards.size())).string();
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) fail_writing();
    const std::string header = header_text(plan, shards[shard]);
    const uint64_t size = header.size();
    write_all({reinterpret_cast<const uint8_t*>(&size), 8});
    write_all({reinterpret_cast<const uint8_t*>(header.data()), header.size()});
  }

  void close_shard() {
    const int closing = fd;
    fd = -1;
    if (::close(closing) != 0) fail_writing();
  }

  // Steps over finished tensors (empty ones are finished at once) and opens and closes shards on the way.
  void advance() {
    while (true) {
      if (fd < 0 && shard < shards.size()) open_shard();
      if (shard == shards.size()) return;
      if (tensor == shards[shard].end) {
        close_shard();
        ++shard;
        continue;
      }
      if (tensor_bytes < plan[tensor].bytes()) return;
      ++tensor;
      tensor_bytes = 0;
    }
  }

  void write_index() const {
    Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
    uint64_t total = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      total += shards[i].bytes;
      for (size_t t = shards[i].first; t < shards[i].end; ++t) {
        index["weight_map"][plan[t].name] = shard_name(i, shards.size());
      }
    }
    index["metadata"]["total_size"] = total;
    write_text_file(folder / "model.safetensors.index.json", dump_json(index, 4));
  }
};

SafetensorsWriter::SafetensorsWriter(std::filesystem::path folder, std::vector<TensorPlan> plan,
                                     uint64_t max_shard_bytes)
    : state_(std::make_unique<State>()) {
  state_->folder = std::move(folder);
  state_->plan = std::move(plan);
  state_->shards = make_shards(state_->plan, max_shard_bytes);
  state_->advance();
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  State& s = *state_;
  LOFT_CHECK_MSG(s.shard < s.shards.size(), "{} bytes after the last tensor of the plan", bytes.size());
  const TensorPlan& tensor = s.plan[s.tensor];
  LOFT_CHECK_MSG(bytes.size() <= tensor.bytes() - s.tensor_bytes, "{}: {} bytes more after {} of {}", tensor.name,
                 bytes.size(), s.tensor_bytes, tensor.bytes());
  s.write_all(bytes);
  s.tensor_bytes += bytes.size();
  s.advance();
}

void SafetensorsWriter::finish() {
  State& s = *state_;
  LOFT_CHECK_MSG(s.shard == s.shards.size(), "tensor {} of {} is not complete: {} bytes", s.tensor, s.plan.size(),
                 s.tensor_bytes);
  if (s.shards.size() > 1) s.write_index();
}

}  // namespace loft
