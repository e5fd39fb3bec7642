// backend/cpu: the fixed-point product on 64-bit ARM: panels of bytes, planes of x as bytes.
#include "backend/cpu/qmm_codes_neon.h"

#include "backend/cpu/activations.h"
#include "backend/cpu/qmm_panel16.h"

namespace loft {
namespace {

void store_neon(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums) {
  for (int64_t i = 0; i < count; ++i) store_y(y, row, column + i, sums[i]);
}

constexpr CodesIsa isa_with(const PanelSources& sources, TileFunction (*tile)(int64_t, int64_t, ActivationForm)) {
  return {.sources = &sources, .tile = tile, .store = store_neon, .code_bytes = 1, .max_panels = 1};
}
constexpr CodesIsa kDotprod = isa_with(kPanelSourcesNeon, tile_neondotprod);
constexpr CodesIsa kI8mm = isa_with(kPanelSourcesNeon, tile_neoni8mm);
constexpr CodesIsa kPackedDotprod = isa_with(kPanel16SourcesNeon, tile_neondotprod);
constexpr CodesIsa kPackedI8mm = isa_with(kPanel16SourcesNeon, tile_neoni8mm);

template <const CodesIsa& isa, ActivationForm kForm>
ActivationKey key(const QuantFormat& format) {
  const bool is_packed = isa.sources == &kPanel16SourcesNeon;
  return {.form = kForm, .stride = is_packed ? quad_stride(format.bits) : 1, .group = format.group};
}
template <const CodesIsa& isa, ActivationForm kForm>
constexpr CpuQmmEntry entry() {
  return {{}, key<isa, kForm>, prepare_codes_scalar, codes_scratch<isa>, codes_run<isa>, kPanelOutputs};
}

}  // namespace

const CpuQmmEntry kCodesA16NeonDotprodEntry = entry<kDotprod, ActivationForm::A16>();
const CpuQmmEntry kCodesA16NeonI8mmEntry = entry<kI8mm, ActivationForm::A16>();
const CpuQmmEntry kCodesA8NeonI8mmEntry = entry<kI8mm, ActivationForm::A8>();
const CpuQmmEntry kPanel16A16NeonDotprodEntry = entry<kPackedDotprod, ActivationForm::A16>();
const CpuQmmEntry kPanel16A16NeonI8mmEntry = entry<kPackedI8mm, ActivationForm::A16>();
const CpuQmmEntry kPanel16A8NeonI8mmEntry = entry<kPackedI8mm, ActivationForm::A8>();

}  // namespace loft
