// backend/cpu: the rows in the published order (docs/quantized_matmul.md), the reference last. The only place with
// #ifdefs on the instruction set.
#include <algorithm>

#include "backend/cpu/cpu_qmm.h"
#include "backend/cpu/qmm_rows.h"
#include "backend/device_info.h"

namespace loft {
namespace {

MRange any_m(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {};
}

// Another device's table has decided the route (qmm-route-as): rows then say only what they can do, not where they win.
bool is_decided(const QmmPolicy& policy) {
  return policy.only_route.has_value();
}

const char* reject_not_plain(const QmmSpec& spec, const DeviceInfo& device) {
  if (device.kind != DeviceKind::Cpu) return "needs a cpu";
  if (!spec.transposed) return "needs w [n, k]";
  if (spec.batch_w != 1 || spec.batch_x != 1) return "needs the batch folded into m";
  return nullptr;
}

const char* reject_dequant(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  if (spec.format.kind == QuantKind::Dense) return "needs a quantized format";
  if (!device.has_gemm_library) return "no gemm library";
  return policy.dequant_gemm || is_decided(policy) ? nullptr : "qmm-dequant-gemm is off";
}

const char* reject_scalar(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  return reject_not_plain(spec, device);
}

/// Formats that become panels of codes (qmm_codes.h).
const char* reject_codes(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  const QuantKind kind = spec.format.kind;
  if (kind != QuantKind::Affine && kind != QuantKind::Mxfp4 && kind != QuantKind::Nvfp4) {
    return "needs an affine format, mxfp4 or nvfp4";
  }
  if (kind == QuantKind::Affine && !spec.has_biases) return "needs biases";
  return policy.activations == QmmActivations::F32 ? "qmm-activations is f32" : nullptr;
}

const char* reject_codes_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  constexpr uint32_t kNeeds = kIsaAvx512 | kIsaAvx512Vnni | kIsaAvx512Vbmi;
  if (const char* why = reject_codes(spec, device, policy)) return why;
  return (device.isa & kNeeds) == kNeeds ? nullptr : "needs avx512 with vnni and vbmi";
}

/// The layout is an option's choice, and rows that dequantize read the checkpoint.
template <const char* (*reject)(const QmmSpec&, const DeviceInfo&, const QmmPolicy&)>
const char* reject_panel16_by(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject(spec, device, policy)) return why;
  if (policy.repack == QmmRepack::Off) return "cpu-repack is off";
  if (policy.fused == QmmFused::Off) return "qmm-fused is off";
  return policy.fused_max_m || policy.dequant_m_threshold ? "dequantize + GEMM needs the checkpoint" : nullptr;
}

template <uint32_t needs>
const char* reject_codes_words(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_codes(spec, device, policy)) return why;
  if ((device.isa & needs) == needs) return nullptr;
  return needs & kIsaAvxVnni ? "needs avx vnni" : "needs avx2";
}

/// sdot multiplies signed bytes, so codes have 7 bits at most; usdot has no such bound.
template <uint32_t needs>
const char* reject_codes_neon(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_codes(spec, device, policy)) return why;
  if ((device.isa & needs) != needs) return needs & kIsaNeonI8mm ? "needs neon i8mm" : "needs neon dotprod";
  return !(needs & kIsaNeonI8mm) && spec.format.bits == 8 ? "needs at most 7 bits" : nullptr;
}

template <const char* (*reject)(const QmmSpec&, const DeviceInfo&, const QmmPolicy&)>
const char* reject_fused_by(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.fused == QmmFused::Off && !is_decided(policy)) return "qmm-fused is off";
  return reject(spec, device, policy);
}

/// Whether some fused row serves the product: the AVX2 row runs wherever the others of its family do, and so does one
/// of the two ARM rows.
const char* reject_fused(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  const char* const why = reject_fused_by<reject_codes_words<kIsaAvx2>>(spec, device, policy);
  if (!why || !reject_fused_by<reject_codes_neon<kIsaNeonDotprod>>(spec, device, policy)) return nullptr;
  return reject_fused_by<reject_codes_neon<kIsaNeonI8mm>>(spec, device, policy) ? why : nullptr;
}

const char* reject_a8_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.activations != QmmActivations::A8) return "qmm-activations is not a8";
  return reject_fused_by<reject_codes_avx512>(spec, device, policy);
}

const char* reject_a8_neon(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (policy.activations != QmmActivations::A8) return "qmm-activations is not a8";
  return reject_fused_by<reject_codes_neon<kIsaNeonI8mm>>(spec, device, policy);
}

const char* reject_above_ceiling(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (is_decided(policy)) return reject_dequant(spec, device, policy);
  if (const char* why = reject_fused(spec, device, policy)) return why;
  if (policy.fused == QmmFused::Force) return "qmm-fused=force removes the ceiling";
  if (!policy.fused_max_m) return "the fused kernel has no ceiling here";
  return reject_dequant(spec, device, policy);
}

const char* reject_above_ceiling_bypass(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_above_ceiling(spec, device, policy)) return why;
  return policy.above_ceiling == QmmAboveCeiling::Bypass ? nullptr : "qmm-above-ceiling is cache";
}

const char* reject_above_ceiling_cache(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_above_ceiling(spec, device, policy)) return why;
  return policy.above_ceiling == QmmAboveCeiling::Cache ? nullptr : "qmm-above-ceiling is bypass";
}

const char* reject_f32_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  return (device.isa & kIsaAvx512) ? nullptr : "needs avx512";
}

const char* reject_f32_avx2(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy&) {
  if (const char* why = reject_not_plain(spec, device)) return why;
  return (device.isa & kIsaAvx2) ? nullptr : "needs avx2";
}

// The f32 rows are tile kernels too. Where no other fused row can run, they carry out that route for another device;
// left to itself this machine calls them Gemv.
template <const char* (*reject)(const QmmSpec&, const DeviceInfo&, const QmmPolicy&)>
const char* reject_stand_in(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  return is_decided(policy) ? reject(spec, device, policy) : "stands in where another device decides";
}

MRange one_row(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {1, 1};
}

const char* reject_vector_avx512(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (const char* why = reject_codes_avx512(spec, device, policy)) return why;
  if (spec.format.kind != QuantKind::Affine) return "needs an affine format";
  if (spec.format.bits != 4 && spec.format.bits != 8) return "needs 4 or 8 bits";
  // Activations of more than L2 would be read again for every 16 outputs.
  constexpr int64_t kMostBlocks = 512;
  if (vector_blocks(spec.k, spec.format.bits) > kMostBlocks) return "k has too long a period of blocks";
  return nullptr;
}

// One row of x is the vector kernel's where it can serve.
MRange range_fused(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (is_decided(policy)) return {};
  return {reject_vector_avx512(spec, device, policy) ? 1 : 2, INT_MAX};
}

/// Packed: the direct kernel's slices of eight rows unpack the weight again and again, the tile once for all.
constexpr int64_t kDirectRows = 8;
MRange range_direct(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {1, kDirectRows};
}
MRange range_panel16_tile(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {kDirectRows + 1, INT_MAX};
}

// 8-bit activations are for prompts: fewer rows are bound by memory, which reads no less, and a few sequences that
// decode together stay exact.
MRange range_a8(const QmmSpec&, const DeviceInfo&, const QmmPolicy&) {
  return {32, INT_MAX};
}

MRange range_above_ceiling(const QmmSpec& spec, const DeviceInfo& device, const QmmPolicy& policy) {
  if (is_decided(policy)) return {};
  const int64_t fused_from = range_fused(spec, device, policy).lo;
  return {std::max({fused_from, policy.fused_max_m.value_or(1), policy.dequant_m_threshold.value_or(1)}), INT_MAX};
}

// Only when asked for: the library sums in its own order, so a row of x would not keep its bytes at every m. Without a
// fused row it would win on AVX2 from about 128 rows (one Zen 4 thread, mxfp4, n = k = 4096, GF/s of the f32 row and of
// the panels with oneDNN held to AVX2: 53 and 28 at 32 rows, 50 and 69 at 128); on AVX-512 it ties from 512 on.
MRange range_dequant(const QmmSpec&, const DeviceInfo&, const QmmPolicy& policy) {
  if (is_decided(policy)) return {};
  return policy.dequant_m_threshold ? MRange{*policy.dequant_m_threshold, INT_MAX} : MRange{1, 0};
}

template <const CpuQmmEntry& entry>
size_t workspace_of(const QmmSpec& spec, int64_t m, const DeviceInfo& device) {
  return cpu_workspace_bytes(entry, spec, m, device);
}

// A row of another machine's instruction set stands in every build, for its routes; its functions do not.
[[maybe_unused]] size_t no_workspace(const QmmSpec&, int64_t, const DeviceInfo&) {
  return 0;
}
#if defined(__x86_64__)
#define LOFT_X86(entry) workspace_of<entry>, &entry
#else
#define LOFT_X86(entry) no_workspace, nullptr
#endif
#if defined(__aarch64__)
#define LOFT_ARM(entry) workspace_of<entry>, &entry
#else
#define LOFT_ARM(entry) no_workspace, nullptr
#endif

const QmmKernel kRows[] = {
    {"qmm_codes_a8_panel16_avx512", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, range_a8,
     reject_panel16_by<reject_a8_avx512>, LOFT_X86(kPanel16A8Avx512Entry)},
    {"qmm_codes_a16_panel16_avx512", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, range_panel16_tile,
     reject_panel16_by<reject_codes_avx512>, LOFT_X86(kPanel16A16Avx512Entry)},
    {"qmv_codes_a16_panel16_avx512", QmmRoute::Gemv, Layout::Panel16, /*canonical=*/true, range_direct,
     reject_panel16_by<reject_codes_avx512>, LOFT_X86(kPanel16DirectAvx512Entry)},
    {"qmm_codes_a16_panel16_avxvnni", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, any_m,
     reject_panel16_by<reject_codes_words<kIsaAvx2 | kIsaAvxVnni>>, LOFT_X86(kPanel16AvxVnniEntry)},
    {"qmm_codes_a16_panel16_avx2", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, any_m,
     reject_panel16_by<reject_codes_words<kIsaAvx2>>, LOFT_X86(kPanel16Avx2Entry)},
    {"qmm_codes_a8_panel16_neoni8mm", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, range_a8,
     reject_panel16_by<reject_a8_neon>, LOFT_ARM(kPanel16A8NeonI8mmEntry)},
    {"qmm_codes_a16_panel16_neoni8mm", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, any_m,
     reject_panel16_by<reject_codes_neon<kIsaNeonI8mm>>, LOFT_ARM(kPanel16A16NeonI8mmEntry)},
    {"qmm_codes_a16_panel16_neondotprod", QmmRoute::WmmaDense, Layout::Panel16, /*canonical=*/true, any_m,
     reject_panel16_by<reject_codes_neon<kIsaNeonDotprod>>, LOFT_ARM(kPanel16A16NeonDotprodEntry)},
    {"qmm_any_panels_sgemm", QmmRoute::DequantGemmAboveWmmaCeiling, Layout::Checkpoint, /*canonical=*/false,
     range_above_ceiling, reject_above_ceiling_bypass, workspace_of<kPanelsEntry>, &kPanelsEntry},
    {"qmm_any_cached_sgemm", QmmRoute::DequantGemm, Layout::Checkpoint, /*canonical=*/false, range_above_ceiling,
     reject_above_ceiling_cache, workspace_of<kPanelsEntry>, &kPanelsEntry},
    {"qmm_codes_a8_avx512", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, range_a8, reject_a8_avx512,
     LOFT_X86(kCodesA8Avx512Entry)},
    {"qmm_codes_a16_avx512", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, range_fused,
     reject_fused_by<reject_codes_avx512>, LOFT_X86(kCodesA16Avx512Entry)},
    {"qmm_any_dequant_sgemm", QmmRoute::DequantGemm, Layout::Checkpoint, /*canonical=*/false, range_dequant,
     reject_dequant, workspace_of<kPanelsEntry>, &kPanelsEntry},
    {"qmv_affine_a16_avx512", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, one_row, reject_vector_avx512,
     LOFT_X86(kVectorAvx512Entry)},
    {"qmm_any_f32_tile_avx512", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_stand_in<reject_f32_avx512>, LOFT_X86(kF32Avx512Entry)},
    {"qmm_any_f32_avx512", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_f32_avx512,
     LOFT_X86(kF32Avx512Entry)},
    {"qmm_codes_a16_avxvnni", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_fused_by<reject_codes_words<kIsaAvx2 | kIsaAvxVnni>>, LOFT_X86(kCodesAvxVnniEntry)},
    {"qmm_codes_a16_avx2", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_fused_by<reject_codes_words<kIsaAvx2>>, LOFT_X86(kCodesAvx2Entry)},
    {"qmm_any_f32_tile_avx2", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_stand_in<reject_f32_avx2>, LOFT_X86(kF32Avx2Entry)},
    {"qmm_any_f32_avx2", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_f32_avx2,
     LOFT_X86(kF32Avx2Entry)},
    {"qmm_codes_a8_neoni8mm", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, range_a8, reject_a8_neon,
     LOFT_ARM(kCodesA8NeonI8mmEntry)},
    {"qmm_codes_a16_neoni8mm", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_fused_by<reject_codes_neon<kIsaNeonI8mm>>, LOFT_ARM(kCodesA16NeonI8mmEntry)},
    {"qmm_codes_a16_neondotprod", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_fused_by<reject_codes_neon<kIsaNeonDotprod>>, LOFT_ARM(kCodesA16NeonDotprodEntry)},
    {"qmm_any_f32_tile_scalar", QmmRoute::WmmaDense, Layout::Checkpoint, /*canonical=*/true, any_m,
     reject_stand_in<reject_scalar>, workspace_of<kScalarEntry>, &kScalarEntry},
    {"qmm_any_f32_scalar", QmmRoute::Gemv, Layout::Checkpoint, /*canonical=*/true, any_m, reject_scalar,
     workspace_of<kScalarEntry>, &kScalarEntry},
};

}  // namespace

std::span<const QmmKernel> cpu_qmm_table() {
  return kRows;
}

}  // namespace loft
