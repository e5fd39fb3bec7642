// backend/cpu: the rows, best first, the reference last. The only place with #ifdefs on the instruction set.
#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_rows.h"
#include "backend/device_info.h"

namespace loft {
namespace {

MRange any_m(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {};
}

const char* reject_not_plain(const QmmSpec& spec, const DeviceInfo& device) {
  if (device.kind != DeviceKind::Cpu) return "needs a cpu";
  if (!spec.transposed) return "needs w [n, k]";
  if (spec.batch_w != 1 || spec.batch_x != 1) return "needs the batch folded into m";
  return nullptr;
}

const char* reject_scalar(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  return reject_not_plain(spec, device);
}

const char* reject_affine_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  constexpr uint32_t kNeeds = kIsaAvx512 | kIsaAvx512Vnni | kIsaAvx512Vbmi;
  if ((device.isa & kNeeds) != kNeeds) return "needs avx512 with vnni and vbmi";
  if (spec.format.kind != QuantKind::Affine) return "needs an affine format";
  if (!spec.has_biases) return "needs biases";
  if (policy.activations == QmmActivations::F32) return "qmm-activations is f32";
  return nullptr;
}

const char* reject_f32_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  return (device.isa & kIsaAvx512) ? nullptr : "needs avx512";
}

const char* reject_f32_avx2(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  return (device.isa & kIsaAvx2) ? nullptr : "needs avx2";
}

MRange one_row(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {1, 1};
}

const char* reject_vector_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_affine_avx512(spec, device, policy)) return why;
  if (spec.format.bits != 4 && spec.format.bits != 8) return "needs 4 or 8 bits";
  // Activations of more than L2 would be read again for every 16 outputs.
  constexpr int64_t kMostBlocks = 512;
  if (vector_blocks(spec.k, spec.format.bits) > kMostBlocks) return "k has too long a period of blocks";
  return nullptr;
}

template <const CpuQmmEntry& entry>
size_t workspace_of(const QmmSpec& spec, int64_t m, const DeviceInfo& device) {
  return cpu_workspace_bytes(entry, spec, m, device);
}

#if defined(__x86_64__)
#define LOFT_X86(entry) &entry
#else
#define LOFT_X86(entry) nullptr
#endif

const QmmKernel kRows[] = {
    {"qmv_affine_a16_avx512", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, one_row, reject_vector_avx512,
     workspace_of<kVectorAvx512Entry>, LOFT_X86(kVectorAvx512Entry)},
    {"qmm_affine_a16_avx512", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m, reject_affine_avx512,
     workspace_of<kAffineAvx512Entry>, LOFT_X86(kAffineAvx512Entry)},
    {"qmm_any_f32_avx512", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_f32_avx512,
     workspace_of<kF32Avx512Entry>, LOFT_X86(kF32Avx512Entry)},
    {"qmm_any_f32_avx2", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_f32_avx2,
     workspace_of<kF32Avx2Entry>, LOFT_X86(kF32Avx2Entry)},
    {"qmm_any_f32_scalar", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_scalar,
     workspace_of<kScalarEntry>, &kScalarEntry},
};

}  // namespace

std::span<const QmmKernel> cpu_qmm_table() {
  return kRows;
}

}  // namespace loft
