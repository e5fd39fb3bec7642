// backend/cpu: the Backend of this machine's processor. Options enter; every op is one call into its own file.
#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <cstring>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/cpu_memory.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_panel16.h"
#include "core/log.h"

namespace loft {
namespace {

DeviceInfo make_device(uint32_t isa, int n_threads, const ReadText& read) {
  return {.kind = DeviceKind::Cpu,
          .name = fmt::format("cpu-{}", isa_level_name(isa)),
          .isa = isa,
          .n_threads = n_threads,
          .l2_bytes = cache_bytes(read, 2),
          .l3_bytes = cache_bytes(read, 3),
          .memory_bytes = int64_t(usable_memory(read))};
}

class CpuBackend : public Backend {
 public:
  CpuBackend(DeviceInfo device, const CpuBackendOptions& options)
      : device_(std::move(device)),
        policy_(options.policy),
        heap_({.memory = options.memory_limit, .cache = options.cache_limit}, pressure()),
        pool_(device_.n_threads),
        context_{.pool = pool_, .kernels = row_kernels(device_.isa), .per_thread = {}, .shared = FloatScratch(heap_)} {
    panels_.bytes = device_.panel_bytes;
    panels_.kernels = &context_.kernels;
    for (int i = 0; i < pool_.size(); ++i) context_.per_thread.emplace_back(heap_);
  }

  const DeviceInfo& device() const override { return device_; }
  const QmmPolicy& policy() const override { return policy_; }

  Buffer allocate(size_t bytes) override { return heap_.allocate(bytes); }
  void upload(void* device_data, const void* host_data, size_t bytes) override { copy(device_data, host_data, bytes); }
  void download(void* host_data, const void* device_data, size_t bytes) override {
    copy(host_data, device_data, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}
  Buffer place(const void* host_data, size_t bytes) override { return heap_.adopt_mapped(host_data, bytes); }
  void drop_placed(const void* data) override { heap_.drop_mapped(data); }
  MemoryStats memory() const override { return heap_.stats(); }
  void reset_peak() override { heap_.reset_peak(); }
  BackendCounters counters() const override {
    return {
        .allocations = heap_.n_allocations(), .allocated_bytes = heap_.allocated_bytes(), .launches = pool_.n_loops()};
  }
  void free_cached() override { heap_.free_cached(); }

  void embed(const Tensor& ids, const QuantWeight& table, const void* packed, float scale, const Tensor& y) override {
    cpu_embed(context_, ids, table, packed, scale, y);
  }
  void rms_norm(const RmsNormArgs& args) override { cpu_rms_norm(context_, args); }
  void rope(const RopeArgs& args) override { cpu_rope(context_, args); }
  void store_kv(const StoreKvArgs& args) override { cpu_store_kv(context_, args); }
  void attention(const AttentionArgs& args) override { cpu_attention(context_, args); }
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override { cpu_add(context_, a, b, y); }
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) override { cpu_add_bias(context_, x, bias, y); }
  void gated_activation(Activation act, const Tensor& gate, const Tensor& up, const Tensor& y) override {
    cpu_gated_activation(context_, act, gate, up, y);
  }
  void softcap(const Tensor& x, float cap, const Tensor& y) override { cpu_softcap(context_, x, cap, y); }
  void gather_rows(const Tensor& x, const Tensor& rows, const Tensor& y) override {
    cpu_gather_rows(context_, x, rows, y);
  }
  void cast(const Tensor& x, const Tensor& y) override { cpu_cast(context_, x, y); }

  std::span<const QmmKernel> qmm_table() const override { return cpu_qmm_table(); }
  void dequantize(const QuantWeight& w, DType dtype, void* out) override {
    cpu_dequantize(pool_, context_.kernels, w, dtype, out);
  }
  PanelStats panel_stats() const override { return {panels_.high_water_bytes, panels_.gemm_fallbacks.load()}; }
  size_t packed_bytes(const QuantWeight& w, Layout layout) const override {
    return layout == Layout::Panel16 && has_panel16(w) ? panel16_bytes(w) : 0;
  }
  void pack(const QuantWeight& w, Layout layout, void* out) override {
    LOFT_CHECK(layout == Layout::Panel16);
    pack_panel16(pool_, w, out);
  }
  void run_qmm(const QmmArgs& args) override { cpu_run_qmm(pool_, panels_, args); }

 private:
  DeviceInfo device_;
  QmmPolicy policy_;
  CpuHeap heap_;
  ThreadPool pool_;
  CpuPanels panels_;
  CpuContext context_;
};

}  // namespace

std::unique_ptr<Backend> open_cpu_backend(const CpuBackendOptions& options) {
  if (options.threads < 0 || options.threads > 4096) {
    fail(Code::BadRequest, "threads: {}, wanted 0 (choose) to 4096", options.threads);
  }
  const ReadText read = read_text_of_system();
  const ThreadPlan plan = plan_threads({.requested = options.threads,
                                        .cpus = online_cpus(read),
                                        .affinity = affinity_of_process(),
                                        .quota_cpus = cgroup_cpu_quota(read)});
  const uint32_t isa = clamp_isa(detect_isa(), options.isa);
  DeviceInfo device = make_device(isa, plan.n_threads, read);
  if (options.policy.panel_bytes.value_or(0) > 0) device.panel_bytes = *options.policy.panel_bytes;
  log_info("{}: threads {}", device.name, plan.reason);
  return std::make_unique<CpuBackend>(std::move(device), options);
}

}  // namespace loft
