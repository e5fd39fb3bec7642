// backend: the names of routes and layouts, and what a weight says of its product.
#include "backend/qmm_kernel.h"

namespace loft {

const char* route_name(QmmRoute route) {
  switch (route) {
    case QmmRoute::Gemv:
      return "Gemv";
    case QmmRoute::WmmaDense:
      return "WmmaDense";
    case QmmRoute::DequantFp8Gemm:
      return "DequantFp8Gemm";
    case QmmRoute::DequantGemm:
      return "DequantGemm";
    case QmmRoute::DequantGemmAboveWmmaCeiling:
      return "DequantGemmAboveWmmaCeiling";
  }
  return "?";
}

QmmSpec qmm_spec(const QuantWeight& w, DType x_dtype) {
  return {.format = w.format,
          .x_dtype = x_dtype,
          .scale_dtype = w.format.kind == QuantKind::Dense ? w.dense_dtype : w.scale_dtype,
          .has_biases = w.biases != nullptr,
          .transposed = true,
          .n = w.n,
          .k = w.k};
}

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::Checkpoint:
      return "checkpoint";
    case Layout::Panel16:
      return "panel16";
  }
  return "?";
}

}  // namespace loft
