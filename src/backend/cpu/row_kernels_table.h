// backend/cpu: the table of row kernels of one instruction set; included last by row_kernels_<isa>.cc.
#pragma once
#include "backend/cpu/attend_body.h"
#include "backend/cpu/row_kernels_body.h"

#define LOFT_PER_TYPE(f) \
  { f<float>, f<Half>, f<Bf16> }
#define LOFT_PER_TWO_TYPES(f)                                                                          \
  {                                                                                                    \
    {f<float, float>, f<float, Half>, f<float, Bf16>}, {f<Half, float>, f<Half, Half>, f<Half, Bf16>}, \
        {f<Bf16, float>, f<Bf16, Half>, f<Bf16, Bf16>},                                                \
  }

namespace loft::LOFT_SIMD_NAMESPACE {

constexpr RowKernels make_row_kernels(const char* name) {
  return {.name = name,
          .rms_norm = LOFT_PER_TWO_TYPES(rms_norm_row),
          .rope = LOFT_PER_TYPE(rope_row),
          .add = LOFT_PER_TWO_TYPES(add_row),
          .silu_mul = LOFT_PER_TYPE(silu_mul_row),
          .gelu_tanh_mul = LOFT_PER_TYPE(gelu_tanh_mul_row),
          .softcap = LOFT_PER_TYPE(softcap_row),
          .scale_cast = LOFT_PER_TWO_TYPES(scale_cast_row),
          .attend = {attend_chunk<float>, attend_chunk<Half>, attend_chunk<Bf16>, attend_chunk<int8_t>},
          .merge = merge_rows,
          .finish = LOFT_PER_TYPE(finish_row)};
}

}  // namespace loft::LOFT_SIMD_NAMESPACE

#undef LOFT_PER_TYPE
#undef LOFT_PER_TWO_TYPES
