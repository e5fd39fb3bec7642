// backend/cpu: the fixed-point product on 64-bit ARM: panels of bytes, planes of x as bytes.
#include "backend/cpu/qmm_codes_neon.h"

#include "backend/cpu/activations.h"

namespace loft {
namespace {

void store_neon(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums) {
  for (int64_t i = 0; i < count; ++i) store_y(y, row, column + i, sums[i]);
}

constexpr CodesIsa isa_with(TileFunction (*tile)(int64_t, int64_t, ActivationForm)) {
  return {.sources = &kPanelSourcesNeon, .tile = tile, .store = store_neon, .code_bytes = 1, .max_panels = 1};
}
constexpr CodesIsa kDotprod = isa_with(tile_neondotprod), kI8mm = isa_with(tile_neoni8mm);

template <const CodesIsa& isa>
void run(const CpuQmmRange& range) {
  run_codes(isa, range);
}
template <const CodesIsa& isa>
size_t scratch(const QmmSpec& spec, int64_t m, int64_t) {
  return codes_scratch_bytes(isa, spec, m);
}
template <ActivationForm kForm>
ActivationKey key(const QuantFormat& format) {
  return {.form = kForm, .stride = 1, .group = format.group};
}
template <const CodesIsa& isa, ActivationForm kForm>
constexpr CpuQmmEntry entry() {
  return {{}, key<kForm>, prepare_codes_scalar, scratch<isa>, run<isa>, kPanelOutputs};
}

}  // namespace

const CpuQmmEntry kCodesA16NeonDotprodEntry = entry<kDotprod, ActivationForm::A16>();
const CpuQmmEntry kCodesA16NeonI8mmEntry = entry<kI8mm, ActivationForm::A16>();
const CpuQmmEntry kCodesA8NeonI8mmEntry = entry<kI8mm, ActivationForm::A8>();

}  // namespace loft
