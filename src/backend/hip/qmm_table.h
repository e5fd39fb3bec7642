// backend/hip: the rows of AMD devices, best first. Host C++ that every build compiles, so that any machine can show
// what a gfx1151 would run; the entries are null where the build lacks the backend.
#pragma once
#include <span>

#include "backend/qmm_kernel.h"

namespace loft {

std::span<const QmmKernel> hip_qmm_table();

}  // namespace loft
