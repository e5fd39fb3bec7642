// backend/cpu: the fixed-point product on AVX-512 with VNNI and VBMI: panels of bytes, planes of x as bytes.
#include <immintrin.h>

#include "backend/cpu/qmm_avx512.h"
#include "backend/cpu/qmm_codes_avx512.h"

namespace loft {
namespace {

void store_avx512(const Tensor& y, int64_t row, int64_t column, int64_t count, const float* sums) {
  for (int64_t i = 0; i < count; i += kLanes) store_columns(y, row, column + i, smaller(kLanes, count - i), sums + i);
}

constexpr CodesIsa kIsa = {.sources = &kPanelSourcesAvx512,
                           .tile = tile_avx512,
                           .store = store_avx512,
                           .code_bytes = 1,
                           .max_panels = kMaxTilePanels};

void run_avx512(const CpuQmmRange& range) {
  run_codes(kIsa, range);
}
size_t scratch_avx512(const QmmSpec& spec, int64_t m, int64_t) {
  return codes_scratch_bytes(kIsa, spec, m);
}

/// Dwords of 4-bit codes give the inputs of eight as 0 2 4 6 and 1 3 5 7, of 2-bit codes those of sixteen as 0 4 8 12
/// and so on.
template <ActivationForm kForm>
ActivationKey key_avx512(const QuantFormat& format) {
  return {.form = kForm, .stride = format.bits == 4 ? 2 : format.bits == 2 ? 4 : 1, .group = format.group};
}

}  // namespace

const CpuQmmEntry kCodesA16Avx512Entry = {{},
                                          /*key=*/key_avx512<ActivationForm::A16>,
                                          /*prepare=*/prepare_codes_avx512,
                                          /*scratch_bytes=*/scratch_avx512,
                                          /*run=*/run_avx512,
                                          /*n_step=*/kMaxTilePanels* kPanelOutputs};

const CpuQmmEntry kCodesA8Avx512Entry = {{},
                                         /*key=*/key_avx512<ActivationForm::A8>,
                                         /*prepare=*/prepare_codes_avx512,
                                         /*scratch_bytes=*/scratch_avx512,
                                         /*run=*/run_avx512,
                                         /*n_step=*/kMaxTilePanels* kPanelOutputs};

}  // namespace loft
