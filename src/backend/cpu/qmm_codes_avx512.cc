// backend/cpu: the fixed-point product on AVX-512 with VNNI and VBMI: panels of bytes, planes of x as bytes.
#include <immintrin.h>

#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_codes_avx512.h"
#include "backend/cpu/qmm_panel16.h"

namespace loft {
namespace {

void store_avx512(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums) {
  for (int64_t i = 0; i < count; i += kLanes) store_columns(y, row, column + i, smaller(kLanes, count - i), sums + i);
}

constexpr CodesIsa isa_with(const PanelSources& sources) {
  return {
      .sources = &sources, .tile = tile_avx512, .store = store_avx512, .code_bytes = 1, .max_panels = kMaxTilePanels};
}
constexpr CodesIsa kCheckpoint = isa_with(kPanelSourcesAvx512), kPanel16 = isa_with(kPanel16SourcesAvx512);

template <ActivationForm kForm>
ActivationKey key(const QuantFormat& format) {
  return {.form = kForm, .stride = quad_stride(format.bits), .group = format.group};
}
template <const CodesIsa& isa, ActivationForm kForm>
constexpr CpuQmmEntry entry() {
  return {{}, key<kForm>, prepare_codes_avx512, codes_scratch<isa>, codes_run<isa>, kMaxTilePanels * kPanelOutputs};
}

}  // namespace

const CpuQmmEntry kCodesA16Avx512Entry = entry<kCheckpoint, ActivationForm::A16>();
const CpuQmmEntry kCodesA8Avx512Entry = entry<kCheckpoint, ActivationForm::A8>();
const CpuQmmEntry kPanel16A16Avx512Entry = entry<kPanel16, ActivationForm::A16>();
const CpuQmmEntry kPanel16A8Avx512Entry = entry<kPanel16, ActivationForm::A8>();

}  // namespace loft
