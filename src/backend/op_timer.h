// backend: a backend in front of another that can time each op on the calling thread: what `loft bench --kernels`
// shows. While it is off a call costs one jump more; a program that never asks for times has no OpTimer at all.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace loft {

/// The calls of one kernel row, or of one op that has no rows.
struct OpTime {
  std::string name{};   // "qmm_codes_a16_avx512", "attention"
  std::string route{};  // of a quantized product, else ""
  uint64_t calls = 0;   // products of a call with several weights count each
  double ns = 0;
  double bytes = 0;  // of its arguments: weights, keys and values that it sees, rows read and written
  double flops = 0;  // products and attention; 0 for the rest
};

/// Every call goes to `inner`. Between start and stop each waits for its end, so that a queue would be measured empty.
class OpTimer final : public Backend {
 public:
  explicit OpTimer(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  void start();
  /// What was called since start, the most time first. A call with several weights gives each row its share by bytes.
  std::vector<OpTime> stop();

  const DeviceInfo& device() const override { return inner_->device(); }
  const QmmPolicy& policy() const override { return inner_->policy(); }
  Buffer allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void upload(void* device_data, const void* host_data, size_t bytes) override;
  void download(void* host_data, const void* device_data, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void synchronize() override { inner_->synchronize(); }
  Buffer place(const void* host_data, size_t bytes) override { return inner_->place(host_data, bytes); }
  void drop_placed(const void* data) override { inner_->drop_placed(data); }
  MemoryStats memory() const override { return inner_->memory(); }
  BackendCounters counters() const override { return inner_->counters(); }
  void reset_peak() override { inner_->reset_peak(); }
  void free_cached() override { inner_->free_cached(); }
  MemoryPressure& pressure() override { return inner_->pressure(); }

  void embed(const Tensor& ids, const QuantWeight& table, const void* packed, float scale, const Tensor& y) override;
  void rms_norm(const RmsNormArgs& args) override;
  void rope(const RopeArgs& args) override;
  void store_kv(const StoreKvArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) override;
  void gated_activation(Activation act, const Tensor& gate, const Tensor& up, const Tensor& y) override;
  void softcap(const Tensor& x, float cap, const Tensor& y) override;
  void gather_rows(const Tensor& x, const Tensor& rows, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y) override;

  std::span<const QmmKernel> qmm_table() const override { return inner_->qmm_table(); }
  void run_qmm(const QmmArgs& args) override;
  void dequantize(const QuantWeight& weight, DType dtype, void* out) override;
  size_t packed_bytes(const QuantWeight& weight, Layout layout) const override {
    return inner_->packed_bytes(weight, layout);
  }
  void pack(const QuantWeight& weight, Layout layout, void* out) override;
  PanelStats panel_stats() const override { return inner_->panel_stats(); }

 private:
  using Key = std::pair<std::string, std::string>;  // name, route

  /// Runs `call`; while timing, adds it under `name` with the bytes and flops that `work` gives.
  template <class Call, class Work>
  void timed(const char* name, const Call& call, const Work& work);
  template <class Call>
  double ns_of(const Call& call);
  void add_time(const Key& key, double ns, double bytes, double flops);

  std::unique_ptr<Backend> inner_;
  bool is_on_ = false;
  std::map<Key, OpTime> times_;
};

}  // namespace loft
